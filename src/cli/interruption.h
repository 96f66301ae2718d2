#pragma once

#include <atomic>
#include <csignal>

namespace drydock::cli {

/// Set by Ctrl-C (SIGINT) or SIGTERM while an Interruptible lives, or while a child runs (child_process.h).
const std::atomic<bool>& interruption();

/// Exit code of a command that Ctrl-C ended and that says what it knows: as a shell reports it.
inline constexpr int kExitInterrupted = 128 + 2;

/// For a signal handler.
void note_interruption();

/// While it lives, SIGINT and SIGTERM end a search, which keeps what is known, and not the process. One at a time.
class Interruptible {
 public:
  Interruptible();
  ~Interruptible();
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

 private:
  struct sigaction interrupt_before_ {};
  struct sigaction terminate_before_ {};
};

}  // namespace drydock::cli
