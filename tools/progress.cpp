#include "progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>

#include "interrupt.h"

namespace pith::tools {
namespace {

constexpr int kBarWidth = 30;
/// Before this share is done, an estimate of the rest would mislead.
constexpr double kShareToEstimate = 0.02;

std::string clock_text(double seconds) {
  const auto whole = std::lround(seconds);
  char text[32];
  std::snprintf(text, sizeof text, "%ld:%02ld", whole / 60, whole % 60);
  return text;
}

}  // namespace

ProgressBar::ProgressBar(std::string label)
    : label_(std::move(label)), terminal_(isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() {
  if (terminal_ && shown_) std::cerr << "\r\033[K" << std::flush;
}

Progress ProgressBar::callback() {
  return [this](double share) {
    show(std::clamp(share, 0.0, 1.0));
    return !interrupted();
  };
}

void ProgressBar::show(double share) {
  const auto now = Clock::now();
  const auto interval = terminal_ ? std::chrono::milliseconds(100) : std::chrono::seconds(10);
  if (!shown_ && !terminal_) shown_ = start_;
  if (shown_ && now - *shown_ < interval) return;
  shown_ = now;
  std::cerr << (terminal_ ? "\r\033[K" : "") << text(share) << (terminal_ ? "" : "\n")
            << std::flush;
}

std::string ProgressBar::text(double share) const {
  std::string out = label_;
  if (terminal_) {
    const int filled = int(share * kBarWidth);
    out += " [" + std::string(size_t(filled), '#') + std::string(size_t(kBarWidth - filled), '.') +
           "]";
  }
  out += " " + std::to_string(int(share * 100)) + "%";
  const double spent = std::chrono::duration<double>(Clock::now() - start_).count();
  if (share >= kShareToEstimate) out += ", " + clock_text(spent / share - spent) + " left";
  return out;
}

}  // namespace pith::tools
