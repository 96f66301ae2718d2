#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "abi/entry_arguments.h"
#include "abi/generated/entries.h"
#include "base/generated/error_codes.h"
#include "comm/hccl_config.h"
#include "device/context.h"
#include "device/options.h"

namespace drydock::entries {

using abi::EntryId;

Status aclrtSetSysParamOpt(int32_t opt, int64_t value) {
  DRYDOCK_RETURN_IF_ERROR(device::check_system_parameter("aclrtSetSysParamOpt", opt));
  device::set_system_parameter(static_cast<device::SystemParameter>(opt), value);
  record_call(EntryId::aclrtSetSysParamOpt, static_cast<uint64_t>(opt), static_cast<uint64_t>(value));
  return Status::ok();
}

Status aclrtCtxSetSysParamOpt(int32_t opt, int64_t value) {
  constexpr std::string_view kEntry = "aclrtCtxSetSysParamOpt";
  DRYDOCK_RETURN_IF_ERROR(device::check_system_parameter(kEntry, opt));
  device::Context* context = nullptr;
  DRYDOCK_RETURN_IF_ERROR(device::require_context(kEntry, context));
  device::set_system_parameter(*context, static_cast<device::SystemParameter>(opt), value);
  record_call(EntryId::aclrtCtxSetSysParamOpt, static_cast<uint64_t>(opt), static_cast<uint64_t>(value));
  return Status::ok();
}

Status aclrtGetSysParamOpt(int32_t opt, int64_t* value) {
  constexpr std::string_view kEntry = "aclrtGetSysParamOpt";
  DRYDOCK_RETURN_IF_ERROR(require_argument(kEntry, "value", value));
  DRYDOCK_RETURN_IF_ERROR(device::check_system_parameter(kEntry, opt));
  *value = device::system_parameter(static_cast<device::SystemParameter>(opt));
  return Status::ok();
}

Status aclSetCompileopt(int32_t opt, const char* value) {
  constexpr std::string_view kEntry = "aclSetCompileopt";
  DRYDOCK_RETURN_IF_ERROR(device::check_compile_option(kEntry, opt));
  DRYDOCK_RETURN_IF_ERROR(require_argument(kEntry, "value", value));
  device::set_compile_option(opt, value);
  record_call(EntryId::aclSetCompileopt, static_cast<uint64_t>(opt));
  return Status::ok();
}

size_t aclGetCompileoptSize(int32_t opt) {
  if (!device::check_compile_option("aclGetCompileoptSize", opt).is_ok()) return 0;
  return device::compile_option(opt).size() + 1;  // with its end (contract I2)
}

Status aclGetCompileopt(int32_t opt, char* value, size_t length) {
  constexpr std::string_view kEntry = "aclGetCompileopt";
  DRYDOCK_RETURN_IF_ERROR(device::check_compile_option(kEntry, opt));
  DRYDOCK_RETURN_IF_ERROR(require_argument(kEntry, "value", value));
  const std::string text = device::compile_option(opt);
  if (length < text.size() + 1) {
    return bad_argument(kEntry, "a buffer of " + std::to_string(length) +
                                    " bytes is too small for the value, which has " + std::to_string(text.size() + 1) +
                                    ". Ask aclGetCompileoptSize.");
  }
  std::memcpy(value, text.c_str(), text.size() + 1);
  return Status::ok();
}

Status aclrtSetOpExecuteTimeOut(uint32_t timeout) {
  device::set_operator_timeout_us(uint64_t{timeout} * 1'000'000);
  record_call(EntryId::aclrtSetOpExecuteTimeOut, device::operator_timeout_us());
  return Status::ok();
}

Status aclrtSetOpExecuteTimeOutV2(uint64_t timeout, uint64_t* actual_timeout) {
  DRYDOCK_RETURN_IF_ERROR(require_argument("aclrtSetOpExecuteTimeOutV2", "actualTimeout", actual_timeout));
  *actual_timeout = device::set_operator_timeout_us(timeout);
  record_call(EntryId::aclrtSetOpExecuteTimeOutV2, *actual_timeout);
  return Status::ok();
}

Status aclrtSetOpWaitTimeout(uint32_t timeout) {
  device::set_wait_timeout_s(timeout);
  record_call(EntryId::aclrtSetOpWaitTimeout, timeout);
  return Status::ok();
}

Status aclrtSetDeviceSatMode(int32_t mode) {
  constexpr std::string_view kEntry = "aclrtSetDeviceSatMode";
  device::Context* context = nullptr;
  DRYDOCK_RETURN_IF_ERROR(device::require_context(kEntry, context));
  DRYDOCK_RETURN_IF_ERROR(device::set_saturation_mode(kEntry, context->device, mode));
  record_call(EntryId::aclrtSetDeviceSatMode, static_cast<uint64_t>(context->device), static_cast<uint64_t>(mode));
  return Status::ok();
}

Status HcclSetConfig(int32_t config, int32_t config_value) {
  DRYDOCK_RETURN_IF_ERROR(comm::set_hccl_config("HcclSetConfig", config, config_value));
  record_call(EntryId::HcclSetConfig, static_cast<uint64_t>(config), static_cast<uint64_t>(config_value));
  return Status::ok();
}

}  // namespace drydock::entries
