#include <array>
#include <cstdio>
#include <cstring>

#include "trace/python_stack.h"

namespace drydock::trace {

CodeOrigin origin_of(std::string_view file, std::string_view function, int minor) noexcept {
  const auto has = [file](std::string_view part) { return file.find(part) != std::string_view::npos; };
  if (file.starts_with('<')) {
    if (file == "<string>") {
      // dataclasses compile the methods they write under this name.
      return function.starts_with("__create_fn__") ? CodeOrigin::kLibrary : CodeOrigin::kUser;
    }
    return file == "<stdin>" || file.starts_with("<ipython-input") || file.starts_with("<python-input")
               ? CodeOrigin::kUser
               : CodeOrigin::kLibrary;
  }
  if (has("/site-packages/drydock/") || has("/dist-packages/drydock/") || has("/python/drydock/") ||
      file.ends_with("/drydock/_holders.py"))
    return CodeOrigin::kDrydock;
  if (file.ends_with("/torch/nn/modules/module.py") && function.ends_with("_wrapped_call_impl"))
    return CodeOrigin::kModuleCall;
  if (has("/site-packages/") || has("/dist-packages/")) return CodeOrigin::kLibrary;
  // The standard library: <prefix>/lib/python3.11/ or lib64, or lib/python311.zip.
  std::array<char, 24> folder{};
  for (const char* form : {"/lib/python3.%d/", "/lib64/python3.%d/", "/lib/python3%d.zip/"}) {
    std::snprintf(folder.data(), folder.size(), form, minor);
    if (has(folder.data())) return CodeOrigin::kLibrary;
  }
  return CodeOrigin::kUser;
}

void drop_process_number(std::string& file) {
  const size_t begin = file.find("/ipykernel_");
  if (begin == std::string::npos) return;
  const size_t number = begin + std::strlen("/ipykernel");
  size_t end = number + 1;
  while (end < file.size() && file[end] >= '0' && file[end] <= '9') ++end;
  if (end < file.size() && file[end] == '/') file.erase(number, end - number);
}

}  // namespace drydock::trace
