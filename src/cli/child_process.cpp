#include "cli/child_process.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <spawn.h>
#include <string_view>
#include <unistd.h>

#include <fmt/format.h>
#include <sys/wait.h>

#include "cli/interruption.h"

extern char** environ;

namespace drydock::cli {
namespace {

constexpr std::array<int, 4> kPassedOn = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
std::atomic<pid_t> the_child{0};

void pass_on(int signal, siginfo_t* info, void*) {
  const int saved_errno = errno;
  note_interruption();
  const pid_t child = the_child.load();
  // From the terminal (SI_KERNEL) the command has got it too.
  if (child > 0 && info->si_code <= 0) kill(child, signal);
  errno = saved_errno;
}

std::vector<std::string> merged_environment(const std::map<std::string, std::string>& changes) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (!changes.contains(std::string(text.substr(0, text.find('='))))) result.emplace_back(text);
  }
  for (const auto& [name, value] : changes) result.push_back(fmt::format("{}={}", name, value));
  return result;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

ChildEnd run_child(const std::vector<std::string>& command, const std::map<std::string, std::string>& environment) {
  ChildEnd end;
  std::vector<std::string> arguments = command;
  std::vector<std::string> variables = merged_environment(environment);
  std::vector<char*> argv = pointers_to(arguments);
  std::vector<char*> envp = pointers_to(variables);

  // Signals wait until the child's number is known, so that none is lost between.
  sigset_t passed_on, before;
  sigemptyset(&passed_on);
  for (int signal : kPassedOn) sigaddset(&passed_on, signal);
  sigprocmask(SIG_BLOCK, &passed_on, &before);
  std::array<struct sigaction, kPassedOn.size()> old_actions{};
  sigset_t default_signals;
  sigemptyset(&default_signals);
  for (size_t index = 0; index < kPassedOn.size(); ++index) {
    struct sigaction action {};
    action.sa_sigaction = pass_on;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigaction(kPassedOn[index], &action, &old_actions[index]);
    // What the caller ignores (nohup) the command ignores too.
    if (old_actions[index].sa_handler == SIG_IGN)
      sigaction(kPassedOn[index], &old_actions[index], nullptr);
    else
      sigaddset(&default_signals, kPassedOn[index]);
  }
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigmask(&attributes, &before);
  posix_spawnattr_setsigdefault(&attributes, &default_signals);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);

  const auto start = std::chrono::steady_clock::now();
  pid_t child = 0;
  const int error = posix_spawnp(&child, argv[0], nullptr, &attributes, argv.data(), envp.data());
  posix_spawnattr_destroy(&attributes);
  if (error == 0) the_child.store(child);
  sigprocmask(SIG_SETMASK, &before, nullptr);

  if (error != 0) {
    end.exit_code = error == ENOENT ? 127 : 126;
    end.failure = error == ENOENT ? fmt::format("There is no command \"{}\".", command[0])
                                  : fmt::format("\"{}\" can't be executed: {}.", command[0], std::strerror(error));
  } else {
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    the_child.store(0);
    end.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }
  end.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  for (size_t index = 0; index < kPassedOn.size(); ++index) sigaction(kPassedOn[index], &old_actions[index], nullptr);
  return end;
}

}  // namespace drydock::cli
