#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "pith/pith.hpp"

namespace pith::tools {

/// Shows on stderr how far long work is and how long it will take: a bar on a terminal, a plain
/// line every ten seconds otherwise. Work of under a second shows nothing on a plain stderr.
class ProgressBar {
 public:
  explicit ProgressBar(std::string label);
  /// Clears the bar.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// For the library: shows the share done and returns false after Ctrl-C. Must not outlive the
  /// bar.
  Progress callback();

 private:
  using Clock = std::chrono::steady_clock;

  void show(double share);
  std::string text(double share) const;

  std::string label_;
  bool terminal_;
  Clock::time_point start_ = Clock::now();
  std::optional<Clock::time_point> shown_;
};

}  // namespace pith::tools
