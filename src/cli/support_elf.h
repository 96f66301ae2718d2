#pragma once

#include <string_view>
#include <vector>

namespace drydock::cli {

/// Dynamic symbols and string constants of a 64-bit little-endian ELF shared object. Views point into the image.
struct ElfNames {
  std::vector<std::string_view> undefined;  ///< without weak ones: an object loads without those
  std::vector<std::string_view> defined;
  std::vector<std::string_view> strings;  ///< whole NUL-terminated strings of read-only data that are identifiers
};

/// True if the bytes begin as an ELF file does.
bool is_elf(std::string_view image) noexcept;

/// Throws std::runtime_error where the image is not such an object or is damaged.
ElfNames read_elf_names(std::string_view image);

}  // namespace drydock::cli
