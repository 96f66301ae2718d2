#include "cli/interruption.h"

namespace drydock::cli {
namespace {

std::atomic<bool> interrupted{false};

}  // namespace

const std::atomic<bool>& interruption() { return interrupted; }

void note_interruption() { interrupted.store(true); }

Interruptible::Interruptible() {
  struct sigaction action {};
  action.sa_handler = [](int) { note_interruption(); };
  sigaction(SIGINT, &action, &interrupt_before_);
  sigaction(SIGTERM, &action, &terminate_before_);
}

Interruptible::~Interruptible() {
  sigaction(SIGINT, &interrupt_before_, nullptr);
  sigaction(SIGTERM, &terminate_before_, nullptr);
}

}  // namespace drydock::cli
