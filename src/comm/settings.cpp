#include "comm/settings.h"

#include <charconv>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include "base/generated/error_codes.h"

namespace drydock::comm {
namespace {

constexpr uint32_t kUnset = 0xffffffff;
constexpr uint32_t kMagic = 0xf0f0f0f0;

// Offsets in HcclCommConfig (source: the header in the torch_npu 2.13 wheel; later versions only append).
constexpr size_t kMagicAt = 8;
constexpr size_t kBufferSizeAt = 24;
constexpr size_t kNameAt = 32;
constexpr size_t kNameBytes = 128;
constexpr size_t kExecutionLimitAt = 316;
constexpr size_t kBufferNameAt = 2098;
constexpr size_t kBufferNameBytes = 128;
constexpr uint64_t kSmallestConfig = 32;
constexpr uint64_t kLargestConfig = 65536;

Status read_number(std::string_view entry, const char* variable, uint64_t least, uint64_t most, std::string_view unit,
                   uint64_t& value) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return Status::ok();
  const std::string_view digits(text);
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size() || number < least || number > most) {
    return Status::error(code::HCCL_E_PARA, fmt::format("{}: {} is \"{}\". It is a whole number of {}, {} to {}.",
                                                        entry, variable, digits, unit, least, most));
  }
  value = number;
  return Status::ok();
}

class Config {
 public:
  explicit Config(const void* begin) : begin_(static_cast<const unsigned char*>(begin)) {
    std::memcpy(&size_bytes_, begin_, sizeof size_bytes_);
  }
  uint64_t size_bytes() const { return size_bytes_; }
  uint32_t number(size_t at) const {
    uint32_t value = kUnset;
    if (at + sizeof value <= size_bytes_) std::memcpy(&value, begin_ + at, sizeof value);
    return value;
  }
  std::string text(size_t at, size_t most) const {
    if (at + most > size_bytes_) return {};
    const auto* first = reinterpret_cast<const char*>(begin_ + at);
    return {first, strnlen(first, most)};
  }

 private:
  const unsigned char* begin_;
  uint64_t size_bytes_ = 0;
};

}  // namespace

Status read_environment(std::string_view entry, EnvironmentSettings& settings) {
  uint64_t buffer_mb = 0;
  uint64_t connect_s = 120;
  uint64_t execution_s = 1836;
  DRYDOCK_RETURN_IF_ERROR(read_number(entry, "HCCL_BUFFSIZE", 1, uint64_t{1} << 20, "MB", buffer_mb));
  DRYDOCK_RETURN_IF_ERROR(read_number(entry, "HCCL_CONNECT_TIMEOUT", 120, 7200, "seconds", connect_s));
  DRYDOCK_RETURN_IF_ERROR(read_number(entry, "HCCL_EXEC_TIMEOUT", 0, 2'147'483'647, "seconds", execution_s));
  settings.buffer_bytes = buffer_mb << 20;
  settings.connect_limit = std::chrono::seconds(connect_s);
  settings.execution_limit = std::chrono::seconds(execution_s);
  return Status::ok();
}

Status read_settings(std::string_view entry, const void* config, CommunicatorSettings& settings) {
  EnvironmentSettings environment;
  DRYDOCK_RETURN_IF_ERROR(read_environment(entry, environment));
  settings.buffer_bytes = environment.buffer_bytes;
  settings.connect_limit = environment.connect_limit;
  settings.execution_limit = environment.execution_limit;
  if (config == nullptr) return Status::ok();
  const Config given(config);
  if (given.size_bytes() < kSmallestConfig || given.size_bytes() > kLargestConfig || given.number(kMagicAt) != kMagic) {
    return Status::error(code::HCCL_E_PARA,
                         fmt::format("{}: the configuration is no HcclCommConfig: it says that it has {} bytes. Call "
                                     "HcclCommConfigInit before its fields are set.",
                                     entry, given.size_bytes()));
  }
  const uint32_t buffer_mb = given.number(kBufferSizeAt);
  if (buffer_mb == 0) return Status::error(code::HCCL_E_PARA, fmt::format("{}: hcclBufferSize is 0 MB.", entry));
  if (buffer_mb != kUnset) settings.buffer_bytes = uint64_t{buffer_mb} << 20;
  const uint32_t execution_s = given.number(kExecutionLimitAt);
  if (execution_s != kUnset) settings.execution_limit = std::chrono::seconds(execution_s);
  settings.name = given.text(kNameAt, kNameBytes);
  settings.buffer_name = given.text(kBufferNameAt, kBufferNameBytes);
  return Status::ok();
}

}  // namespace drydock::comm
