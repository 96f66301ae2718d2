#include <chrono>
#include <cstdlib>
#include <string>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "abi/generated/entries.h"
#include "base/generated/error_codes.h"
#include "base/recent_error.h"
#include "device/context.h"
#include "ops/phases.h"
#include "ops_random_arguments.h"
#include "trace_child_process.h"

// Both phases of every operator with what no client should pass: null, dead and foreign handles, impossible tensors,
// wild scalars, arrays and lists, between arguments that fit so that the depths are reached too. Each call must answer
// with a code of the vendor's and a sentence. The sanitizer builds make this test sharp.
//
// DRYDOCK_FUZZ_SECONDS: how long each test goes on, instead of the few rounds of a quick run. DRYDOCK_FUZZ_SEED: where
// the numbers begin; a child that dies names its seed, the operator and the call.

namespace drydock::ops {
namespace {

using testing::Arguments;
using testing::Draw;
using testing::kFuzzedBytes;

constexpr uint64_t kWorkspaceBytes = uint64_t{128} << 20;
constexpr int32_t kHostToDevice = 1;
constexpr uint64_t kRoundsOfAChild = 25;  // calls of each operator in one process
constexpr unsigned kSecondsOfACall = 60;
constexpr size_t kMostDeaths = 200;

// What a child did, in memory that its parent shares; the last call for the sentence about a death.
struct Tally {
  uint64_t first_phases = 0;
  uint64_t accepted = 0;  ///< by the first phase
  uint64_t second_phases = 0;
  uint64_t launched = 0;  ///< by the second phase
  uint64_t faults = 0;    ///< found at the synchronize behind it
  uint32_t operator_index = 0;
  uint64_t round = 0;
};

class Fuzz {
 public:
  Fuzz(uint64_t seed, Tally& tally) : seed_(seed), tally_(tally) {}

  void open() {
    ASSERT_TRUE(entries::aclInit(nullptr).is_ok());
    ASSERT_TRUE(entries::aclrtSetDevice(0).is_ok());
    ASSERT_TRUE(entries::aclrtMalloc(&workspace_, kWorkspaceBytes, 0).is_ok());
    void* memory = nullptr;
    ASSERT_TRUE(entries::aclrtMalloc(&memory, kFuzzedBytes - 32, 0).is_ok());  // the door adds 32
    memory_ = static_cast<char*>(memory);
    new_stream();
  }

  /// Calls each operator from number `first` on.
  void round(uint64_t round, uint32_t first) {
    tally_.round = round;
    draw_.restart(seed_ * 1000 + round);
    write_memory();
    const auto rows = operator_rows();
    for (uint32_t index = first; index < rows.size(); ++index) {
      if (!rows[index].name.starts_with("aclnn")) continue;
      tally_.operator_index = index;
      draw_.restart((seed_ * 1000 + round) * 100'003 + index);
      alarm(kSecondsOfACall);
      call(index, rows[index]);
      if (::testing::Test::HasFailure()) return;
    }
    alarm(0);
  }

 private:
  // Small integers where they are read as 8 bytes, with a few of everything else; the last quarter stays a ghost until
  // an operator writes there.
  void write_memory() {
    std::vector<int64_t> host(kFuzzedBytes / 4 * 3 / sizeof(int64_t));
    for (int64_t& value : host) value = draw_.one_in(16) ? static_cast<int64_t>(draw_.bits()) : draw_.size() - 2;
    const size_t bytes = host.size() * sizeof(int64_t);
    ASSERT_TRUE(entries::aclrtMemcpy(memory_, bytes, host.data(), bytes, kHostToDevice).is_ok());
  }

  void new_stream() {
    if (stream_ != nullptr) {
      ASSERT_TRUE(entries::aclrtDestroyStreamForce(stream_).is_ok());
    }
    ASSERT_TRUE(entries::aclrtCreateStream(&stream_).is_ok());
  }

  void expect_sentence(const OperatorRow& row, int32_t code) const {
    const std::string said = peek_recent_error();
    EXPECT_NE(said.find(row.name), std::string::npos) << code << " from " << row.name << " says: " << said;
  }

  void call(uint32_t index, const OperatorRow& row) {
    Arguments arguments(draw_, memory_);
    std::vector<Arg> args;
    for (const ArgSpec& spec : row.args) args.push_back(arguments.draw(spec));
    uint64_t workspace_size = 99;
    void* executor = this;
    ++tally_.first_phases;
    if (draw_.one_in(200)) {
      EXPECT_EQ(phase1(index, args.data(), static_cast<uint32_t>(args.size()), nullptr, &executor),
                code::ACLNN_ERR_PARAM_NULLPTR);
      EXPECT_EQ(phase1(index, args.data(), static_cast<uint32_t>(args.size()), &workspace_size, nullptr),
                code::ACLNN_ERR_PARAM_NULLPTR);
      return;
    }
    const int32_t code = phase1(index, args.data(), static_cast<uint32_t>(args.size()), &workspace_size, &executor);
    if (code != 0) {
      EXPECT_TRUE(code == code::ACLNN_ERR_PARAM_NULLPTR || code == code::ACLNN_ERR_PARAM_INVALID)
          << row.name << " answers " << code << ": " << peek_recent_error();
      EXPECT_EQ(workspace_size, 0U) << row.name;
      EXPECT_EQ(executor, nullptr) << row.name;
      expect_sentence(row, code);
      return;
    }
    ++tally_.accepted;
    second_phase(index, row, arguments, workspace_size, executor);
  }

  void second_phase(uint32_t index, const OperatorRow& row, Arguments& arguments, uint64_t workspace_size,
                    void* executor) {
    if (draw_.one_in(100)) {
      EXPECT_TRUE(entries::aclDestroyAclOpExecutor(executor).is_ok());
      return;
    }
    if (draw_.one_in(100)) arguments.destroy();
    const bool repeatable = draw_.one_in(50);
    if (repeatable) {
      EXPECT_TRUE(entries::aclSetAclOpExecutorRepeatable(executor).is_ok());
    }
    const void* stream = draw_.one_in(100) ? arguments.wild_pointer() : draw_.one_in(20) ? nullptr : stream_;
    const void* workspace = draw_.one_in(100) ? arguments.wild_pointer() : workspace_;
    const uint64_t given_size = draw_.one_in(100) ? draw_.bits() : workspace_size;
    for (int time = 0; time < (repeatable ? 2 : 1); ++time) {
      ++tally_.second_phases;
      const int32_t code = phase2(index, const_cast<void*>(workspace), given_size, executor, const_cast<void*>(stream));
      if (code != 0) {
        EXPECT_NE(code, code::ACLNN_ERR_INNER) << row.name << ": " << peek_recent_error();
        EXPECT_NE(code, code::ACL_ERROR_BAD_ALLOC) << row.name;
        expect_sentence(row, code);
      } else {
        ++tally_.launched;
      }
    }
    if (repeatable) {
      EXPECT_TRUE(entries::aclDestroyAclOpExecutor(executor).is_ok());
    }
    for (void* used : {stream_, static_cast<void*>(nullptr)}) {
      const Status status = entries::aclrtSynchronizeStream(used);
      if (status.is_ok()) continue;
      ++tally_.faults;
      EXPECT_EQ(status.code(), code::ACL_ERROR_RT_VECTOR_CORE_EXCEPTION) << row.name << ": " << status.message();
      if (used != nullptr) new_stream();
    }
  }

  const uint64_t seed_;
  Tally& tally_;
  Draw draw_;
  void* workspace_ = nullptr;
  char* memory_ = nullptr;
  void* stream_ = nullptr;
};

uint64_t number_of(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// A child per seed: traces stay small, each mode of values has its process, and behind a death a new child goes on with
// the next operator.
void fuzz(const char* values) {
  const uint64_t seconds = number_of("DRYDOCK_FUZZ_SECONDS", 0);
  const uint64_t first_seed = number_of("DRYDOCK_FUZZ_SEED", 1);
  const uint64_t rounds = seconds > 0 ? kRoundsOfAChild : 3;
  void* shared = mmap(nullptr, sizeof(Tally), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  Tally& tally = *new (shared) Tally;
  const auto begin = std::chrono::steady_clock::now();
  const auto passed = [begin] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  uint64_t seed = first_seed;
  std::vector<std::string> deaths;  // told at the end: a child that is born after a failure would inherit it
  do {
    uint64_t next_round = 0;
    uint32_t next_operator = 0;
    while (next_round < rounds) {
      const trace::RunFolder run;
      const int ended = trace::run_child(run.path(), [&] {
        setenv("DRYDOCK_VALUES", values, 1);
        Fuzz fuzz(seed, tally);
        fuzz.open();
        for (; next_round < rounds && !::testing::Test::HasFailure(); ++next_round, next_operator = 0) {
          fuzz.round(next_round, next_operator);
        }
      });
      if (ended == 0) break;
      deaths.push_back("seed " + std::to_string(seed) + ", round " + std::to_string(tally.round) + ": " +
                       std::string(operator_rows()[tally.operator_index].name) +
                       (ended == 128 + SIGALRM ? " takes too long" : " ended the process or answered wrongly"));
      if (deaths.size() == kMostDeaths) break;
      next_round = tally.round;
      next_operator = tally.operator_index + 1;
    }
    ++seed;
  } while (passed() < static_cast<double>(seconds) && deaths.size() < kMostDeaths);
  for (const std::string& death : deaths) ADD_FAILURE() << death;
  std::printf(
      "values %s: seeds %lu to %lu, %lu first phases (%lu accepted), %lu second phases (%lu launched), %lu faults "
      "of the device, %.1f s\n",
      values, first_seed, seed - 1, tally.first_phases, tally.accepted, tally.second_phases, tally.launched,
      tally.faults, passed());
  EXPECT_GT(tally.launched, tally.first_phases / 8);  // else the arguments are too wild to test anything
  munmap(shared, sizeof(Tally));
}

TEST(PhaseFuzz, NothingCrashesOrGoesWithoutASentence) { fuzz("auto"); }
TEST(PhaseFuzz, NothingCrashesWhereEverythingIsComputed) { fuzz("full"); }

}  // namespace
}  // namespace drydock::ops
