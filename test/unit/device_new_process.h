#pragma once

#include <functional>
#include <unistd.h>

#include <gtest/gtest.h>
#include <sys/wait.h>

namespace drydock {

/// Runs a test in a process of its own, so that no test sees the state of another. 0 if it left no failure.
inline int in_new_process(const std::function<void()>& test) {
  const pid_t child = fork();
  if (child == 0) {
    test();
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace drydock

#define IN_NEW_PROCESS(...) EXPECT_EQ(::drydock::in_new_process([&] __VA_ARGS__), 0)
