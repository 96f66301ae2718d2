#pragma once

#include <cstdint>

#include "trace/process_memory.h"

// Does the table of layouts (python_layout.h) fit the interpreter that runs?

namespace drydock::trace {

enum class LayoutFit : uint8_t { kWrong, kRight, kRightSoFar };

/// Looks at the calling thread's stack with reads that can't fault: the thread state must name this thread, every frame
/// a code object with texts and a line table in their places and an instruction inside it, and every line must be the
/// one that the interpreter itself decodes. A stack of one frame says nothing about how frames are linked. May throw.
LayoutFit fit_of_layout(ProcessMemory& memory, uintptr_t thread_state);

}  // namespace drydock::trace
