#include "watch/terminal.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string_view>
#include <unistd.h>

#include <sys/ioctl.h>

namespace drydock::watch {
namespace {

volatile std::sig_atomic_t was_interrupted = 0;

void keep_interrupt(int) { was_interrupted = 1; }
void wake(int) {}

int number_of(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  const int number = text == nullptr ? 0 : std::atoi(text);
  return number > 0 ? number : otherwise;
}

}  // namespace

Screen::Screen() {
  // The other screen, without a cursor.
  std::fputs("\x1b[?1049h\x1b[?25l", stdout);
  std::fflush(stdout);
}

Screen::~Screen() {
  std::fputs("\x1b[?25h\x1b[?1049l", stdout);
  std::fflush(stdout);
}

void Screen::show(const std::vector<std::string>& lines) const {
  const auto rows = static_cast<size_t>(screen_size().rows);
  std::string text = "\x1b[H";
  for (size_t index = 0; index < lines.size() && index < rows; ++index) {
    text += lines[index] + "\x1b[K";
    if (index + 1 < lines.size() && index + 1 < rows) text += "\r\n";
  }
  text += "\x1b[J";
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void catch_signals() {
  struct sigaction action {};
  action.sa_handler = keep_interrupt;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  action.sa_handler = wake;
  sigaction(SIGWINCH, &action, nullptr);
}

bool interrupted() { return was_interrupted != 0; }

void pause_for(double seconds) {
  timespec time{};
  time.tv_sec = static_cast<time_t>(seconds);
  time.tv_nsec = static_cast<long>((seconds - static_cast<double>(time.tv_sec)) * 1e9);
  if (!interrupted()) nanosleep(&time, nullptr);
}

ScreenSize screen_size() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0)
    return {size.ws_col, size.ws_row};
  return {number_of("COLUMNS", 80), number_of("LINES", 24)};
}

bool output_is_terminal() { return isatty(STDOUT_FILENO) == 1; }

bool writes_utf8() {
  for (const char* variable : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* text = std::getenv(variable);
    if (text == nullptr || *text == '\0') continue;
    const std::string_view language(text);
    return language.find("UTF-8") != std::string_view::npos || language.find("utf8") != std::string_view::npos ||
           language.find("utf-8") != std::string_view::npos;
  }
  return false;
}

}  // namespace drydock::watch
