#pragma once

#include <string>
#include <vector>

namespace drydock::watch {

/// Standard output as a screen that is drawn anew, while it lives; the text that was there comes back at its end.
/// Ctrl-C and SIGTERM are kept and ask for the end. One at a time.
class Screen {
 public:
  Screen();
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  /// Replaces what is shown; lines that do not fit are left out.
  void show(const std::vector<std::string>& lines) const;
};

/// Keeps Ctrl-C and SIGTERM for `interrupted`, and lets a new size of the terminal end `pause` early.
void catch_signals();
bool interrupted();
/// Waits, or less if a signal comes.
void pause_for(double seconds);

struct ScreenSize {
  int columns = 80;
  int rows = 24;
};
/// Of the terminal at standard output; COLUMNS and LINES where there is none.
ScreenSize screen_size();
bool output_is_terminal();
/// The language of the environment writes UTF-8.
bool writes_utf8();

}  // namespace drydock::watch
