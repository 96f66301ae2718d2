#include "trace/python_caches.h"

#include <pthread.h>
#include <unistd.h>

#include <sys/mman.h>
#include <sys/syscall.h>

namespace drydock::trace {
namespace {

thread_local constinit ThreadCaches* this_threads_caches = nullptr;

void drop_caches(void* caches) noexcept {
  this_threads_caches = nullptr;
  munmap(caches, sizeof(ThreadCaches));
}

// A key's destructor runs when its thread ends, and not for the main thread when the process does.
struct Key {
  pthread_key_t key = 0;
  bool is_valid = false;
  Key() noexcept : is_valid(pthread_key_create(&key, drop_caches) == 0) {}
};

}  // namespace

ThreadCaches* caches_of_this_thread() noexcept {
  if (this_threads_caches != nullptr) return this_threads_caches;
  static const Key key;
  void* memory = mmap(nullptr, sizeof(ThreadCaches), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  this_threads_caches = static_cast<ThreadCaches*>(memory);
  if (syscall(SYS_gettid) == getpid()) this_threads_caches->start = ThreadStart::kMain;
  if (key.is_valid) pthread_setspecific(key.key, memory);
  return this_threads_caches;
}

void become_main_thread() noexcept {
  if (this_threads_caches != nullptr) this_threads_caches->start = ThreadStart::kMain;
}

}  // namespace drydock::trace
