#include "base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <new>
#include <pthread.h>
#include <sched.h>
#include <system_error>
#include <thread>

namespace drydock::base {
namespace {

// Ranges handed out per thread: enough to even out threads of different speed, few enough to cost nothing.
constexpr int64_t kRangesPerThread = 4;

int cores_of_this_process() noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

int read_thread_count() noexcept {
  if (const char* text = std::getenv("DRYDOCK_THREADS")) {
    if (const int threads = parse_thread_count(text); threads > 0) return threads;
  }
  return std::min(cores_of_this_process(), kMaxThreads);
}

thread_local bool inside_a_range = false;

class Pool {
 public:
  // Never destroyed: threads of a client may compute while the process exits.
  static Pool& instance() noexcept {
    static Pool& pool = *new Pool;
    return pool;
  }

  void run(int64_t count, int64_t range, detail::RangeBody body, void* argument) noexcept {
    const std::unique_lock turn(turn_, std::try_to_lock);
    if (!turn.owns_lock() || !start()) {
      compute_alone(count, body, argument);
      return;
    }
    {
      const std::lock_guard lock(mutex_);
      body_ = body;
      argument_ = argument;
      count_ = count;
      range_ = range;
      next_.store(0, std::memory_order_relaxed);
      open_ = true;
      ++generation_;
    }
    wake_.notify_all();
    take_ranges();
    std::unique_lock lock(mutex_);
    open_ = false;  // a worker that wakes up only now is not waited for
    done_.wait(lock, [this] { return working_ == 0; });
  }

  static void compute_alone(int64_t count, detail::RangeBody body, void* argument) noexcept {
    const bool outer = inside_a_range;
    inside_a_range = true;
    body(argument, 0, count);
    inside_a_range = outer;
  }

  // A forked child has none of the threads and may find any lock held: it begins with a new pool's state. Registered
  // at load: a fork that has begun does not meet handlers that another thread registers meanwhile.
  [[gnu::constructor]] static void watch_forks() noexcept {
    pthread_atfork([] { instance().turn_.lock(); }, [] { instance().turn_.unlock(); },
                   [] { instance().begin_again(); });
  }

 private:
  void begin_again() noexcept {
    new (&mutex_) std::mutex;
    turn_.unlock();  // this thread locked it before the fork
    new (&wake_) std::condition_variable;
    new (&done_) std::condition_variable;
    started_ = false;
    worker_count_ = 0;
    working_ = 0;
    open_ = false;
    generation_ = 0;
  }

  // Starts the workers at the first use; false if the process may have none.
  bool start() noexcept {
    if (started_) return worker_count_ > 0;
    started_ = true;
    for (int worker = 1; worker < thread_count(); ++worker) {
      try {
        std::thread([this, seen = generation_] { work(seen); }).detach();
        ++worker_count_;
      } catch (const std::system_error&) {
        break;  // fewer threads compute the same
      }
    }
    return worker_count_ > 0;
  }

  void work(uint64_t seen) noexcept {
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [&] { return generation_ != seen; });
      seen = generation_;
      if (!open_) continue;
      ++working_;
      lock.unlock();
      take_ranges();
      lock.lock();
      if (--working_ == 0) done_.notify_one();
    }
  }

  void take_ranges() noexcept {
    inside_a_range = true;
    while (true) {
      const int64_t begin = next_.fetch_add(range_, std::memory_order_relaxed);
      if (begin >= count_) break;
      body_(argument_, begin, std::min(begin + range_, count_));
    }
    inside_a_range = false;
  }

  std::mutex turn_;   // held by the caller whose work the pool does
  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_, done_;
  bool started_ = false;
  int worker_count_ = 0;
  int working_ = 0;    // workers inside take_ranges()
  bool open_ = false;  // there may be ranges left
  uint64_t generation_ = 0;
  detail::RangeBody body_ = nullptr;
  void* argument_ = nullptr;
  int64_t count_ = 0, range_ = 0;
  std::atomic<int64_t> next_{0};
};

}  // namespace

int parse_thread_count(std::string_view text) noexcept {
  int threads = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, threads);
  return error == std::errc() && stopped == end && threads >= 1 && threads <= kMaxThreads ? threads : 0;
}

int thread_count() noexcept {
  static const int threads = read_thread_count();
  return threads;
}

void detail::run_ranges(int64_t count, int64_t grain, RangeBody run, void* body) noexcept {
  if (count <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  // Not counted as being inside a range: one long item may well split its own work.
  if (count <= grain || thread_count() == 1 || inside_a_range) return run(body, 0, count);
  const int64_t ranges = thread_count() * kRangesPerThread;
  Pool::instance().run(count, std::max(grain, (count + ranges - 1) / ranges), run, body);
}

}  // namespace drydock::base
