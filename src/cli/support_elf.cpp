#include "cli/support_elf.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <elf.h>
#include <stdexcept>
#include <type_traits>

namespace drydock::cli {
namespace {

std::string_view part(std::string_view image, uint64_t offset, uint64_t size) {
  if (offset > image.size() || size > image.size() - offset) {
    throw std::runtime_error("it is a damaged shared object: a table lies outside the file");
  }
  return image.substr(offset, size);
}

template <class T>
T record(std::string_view image, uint64_t offset) {
  static_assert(std::is_trivially_copyable_v<T>);
  T value;
  std::memcpy(&value, part(image, offset, sizeof(T)).data(), sizeof(T));
  return value;
}

std::string_view text_at(std::string_view table, uint64_t offset) {
  if (offset >= table.size()) return {};
  const std::string_view rest = table.substr(offset);
  return rest.substr(0, rest.find('\0'));
}

bool is_identifier(std::string_view text) {
  return !text.empty() && !std::isdigit(static_cast<unsigned char>(text.front())) &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; });
}

void collect_strings(std::string_view data, std::vector<std::string_view>& strings) {
  while (!data.empty()) {
    const size_t length = data.find('\0');
    if (length == std::string_view::npos) return;
    const std::string_view text = data.substr(0, length);
    if (length > 3 && length < 200 && is_identifier(text)) strings.push_back(text);
    data.remove_prefix(length + 1);
  }
}

}  // namespace

bool is_elf(std::string_view image) noexcept { return image.starts_with(std::string_view(ELFMAG, SELFMAG)); }

ElfNames read_elf_names(std::string_view image) {
  if (!is_elf(image)) throw std::runtime_error("it is not a shared object (ELF)");
  const auto header = record<Elf64_Ehdr>(image, 0);
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB) {
    throw std::runtime_error("it is not a 64-bit little-endian shared object");
  }
  std::vector<Elf64_Shdr> sections;
  for (uint64_t index = 0; index < header.e_shnum; ++index) {
    sections.push_back(record<Elf64_Shdr>(image, header.e_shoff + index * sizeof(Elf64_Shdr)));
  }
  ElfNames names;
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type == SHT_PROGBITS && (section.sh_flags & SHF_ALLOC) != 0 &&
        (section.sh_flags & (SHF_EXECINSTR | SHF_WRITE)) == 0) {
      collect_strings(part(image, section.sh_offset, section.sh_size), names.strings);
    }
    if (section.sh_type != SHT_DYNSYM || section.sh_link >= sections.size()) continue;
    const Elf64_Shdr& strings = sections[section.sh_link];
    const std::string_view table = part(image, strings.sh_offset, strings.sh_size);
    const std::string_view symbols = part(image, section.sh_offset, section.sh_size);
    for (uint64_t offset = 0; offset + sizeof(Elf64_Sym) <= symbols.size(); offset += sizeof(Elf64_Sym)) {
      const auto symbol = record<Elf64_Sym>(symbols, offset);
      const std::string_view name = text_at(table, symbol.st_name);
      if (name.empty()) continue;
      if (symbol.st_shndx != SHN_UNDEF) {
        names.defined.push_back(name);
      } else if (ELF64_ST_BIND(symbol.st_info) != STB_WEAK) {
        names.undefined.push_back(name);
      }
    }
  }
  return names;
}

}  // namespace drydock::cli
