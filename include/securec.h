#pragma once

/* The bounded memory functions that host code of operators includes under this name: they copy or fill nothing and
   return an error where the target is too small. */

#include <errno.h>
#include <stddef.h>
#include <string.h>

typedef int errno_t;

#define EOK 0

/** Fills `count` bytes of a target of `size` bytes. 0, or EINVAL or ERANGE with nothing written. */
static inline errno_t memset_s(void* target, size_t size, int value, size_t count) {
  if (target == NULL) return EINVAL;
  if (count > size) return ERANGE;
  memset(target, value, count);
  return EOK;
}

/** Copies `count` bytes into a target of `size` bytes; the two do not overlap. 0, or EINVAL or ERANGE with nothing
    written. */
static inline errno_t memcpy_s(void* target, size_t size, const void* source, size_t count) {
  if (target == NULL || source == NULL) return EINVAL;
  if (count > size) return ERANGE;
  memcpy(target, source, count);
  return EOK;
}
