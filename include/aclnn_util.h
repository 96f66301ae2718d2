#pragma once

/* The mark of exported functions, in headers of operators that examples include by their path in a checkout. */
#define ACLNN_API __attribute__((visibility("default")))
