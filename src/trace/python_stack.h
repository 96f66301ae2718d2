#pragma once

#include <string>
#include <string_view>

#include "base/export.h"
#include "trace/format.h"

// Reads the source line of the calling thread's Python code straight from the interpreter's frames (current_line() in
// recorder.h), without the interpreter lock: torch gives it up around operators, and to take it under the client's
// allocator lock would deadlock. A thread's frames do not move while the thread is in C code.

namespace drydock::trace {

/// Where source code comes from, by its file name.
enum class CodeOrigin : uint8_t {
  kUser,        ///< a program, "<stdin>", "<string>", notebook cells
  kLibrary,     ///< site-packages, the standard library, generated code
  kDrydock,     ///< Drydock's own Python package
  kModuleCall,  ///< a library's: torch's way into a module's forward
};

/// `function` is the qualified name, `minor` of the running Python 3.
DRYDOCK_API CodeOrigin origin_of(std::string_view file, std::string_view function, int minor) noexcept;

/// Notebook kernels name their cells after their process ("/tmp/ipykernel_123/456.py"), which would make two runs
/// differ: takes the number out.
DRYDOCK_API void drop_process_number(std::string& file);

/// The state that the header of the trace shows. kUntried until a thread with Python frames asked for its line.
DRYDOCK_API PythonState python_state() noexcept;

/// Address of the torch.nn.Module whose forward the calling thread is in, the innermost; 0 if there is none.
DRYDOCK_API uint64_t current_module() noexcept;

/// True if the innermost Python function of the calling thread has that qualified name. Reads text: not for hot paths.
DRYDOCK_API bool is_in_python_function(std::string_view qualified_name) noexcept;

/// For the child after fork: the other threads are gone.
void forget_python_threads() noexcept;

}  // namespace drydock::trace
