#pragma once

/// Everything is compiled with hidden visibility; what another library of Drydock calls is marked.
/// Stands at the beginning of a declaration, or between `class` and the name.
#define DRYDOCK_API [[gnu::visibility("default")]]
