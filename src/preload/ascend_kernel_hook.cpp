// libascend_kernel_hook.so: goes into LD_PRELOAD of a run, for two reasons.
//
// torch_npu tells its memory hooks (libms_tools_ext) about blocks only where LD_PRELOAD names a library of this name.
//
// And it counts operators that have no NPU kernel. torch_npu sends each of them to at::native::cpu_fallback of
// libtorch_cpu, with the operator's handle. A preloaded library comes first when the loader binds that name, so the
// call arrives here, is recorded, and goes on. torch_npu's own warning can't be counted: it comes once per operator.
//
// Every process of a run loads this library, the shells and compilers too: it needs libc only and does nothing at load.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <vector>

namespace c10 {
class OperatorHandle;
struct IValue;
enum class DispatchKey : uint16_t;
}  // namespace c10

namespace {

using CpuFallback = void (*)(const c10::OperatorHandle&, std::vector<c10::IValue>*, bool, c10::DispatchKey);
using RecordFallback = void (*)(const char*);

constexpr const char* kCpuFallbackName =
    "_ZN2at6native12cpu_fallbackERKN3c1014OperatorHandleEPSt6vectorINS1_6IValueESaIS6_EEbNS1_11DispatchKeyE";

// Of a library that is loaded already. Both are loaded for themselves only, so the global scope does not show them.
void* find(const char* library, const char* name) {
  void* handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
  return handle == nullptr ? nullptr : dlsym(handle, name);
}

// An operator's handle begins with a pointer to its entry, and that with its name ("aten::foo"), a std::string.
struct OperatorEntryHead {
  const char* name;
  size_t name_bytes;
};

void record(const c10::OperatorHandle& handle) {
  static RecordFallback const record_fallback =
      reinterpret_cast<RecordFallback>(find("libdrydock.so", "drydock_trace_host_fallback"));
  if (record_fallback == nullptr) return;
  const OperatorEntryHead* entry = *reinterpret_cast<const OperatorEntryHead* const*>(&handle);
  // A name that is none means another layout: then say so rather than print bytes of something else.
  if (entry == nullptr || entry->name_bytes < 4 || entry->name_bytes > 256 || entry->name[entry->name_bytes] != '\0' ||
      std::strlen(entry->name) != entry->name_bytes || std::strstr(entry->name, "::") == nullptr) {
    record_fallback("(an operator whose name could not be read)");
    return;
  }
  record_fallback(entry->name);
}

}  // namespace

namespace at::native {

__attribute__((visibility("default"))) void cpu_fallback(const c10::OperatorHandle& handle,
                                                         std::vector<c10::IValue>* stack, bool error_on_views,
                                                         c10::DispatchKey key) {
  static CpuFallback const genuine = reinterpret_cast<CpuFallback>(find("libtorch_cpu.so", kCpuFallbackName));
  if (genuine == nullptr) {
    std::fputs("drydock: at::native::cpu_fallback was called, but libtorch_cpu.so has no such function.\n", stderr);
    std::abort();
  }
  record(handle);
  genuine(handle, stack, error_on_views, key);
}

}  // namespace at::native
