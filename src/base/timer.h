#pragma once

#include <chrono>
#include <ctime>

namespace pith {

/// Wall time since it was made.
class Timer {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// Wall time, and CPU time of all threads of the process, since it was made. Reading the CPU clock
/// is a system call, so this is for phases, not for kernels.
class PhaseTimer {
 public:
  double seconds() const { return wall_.seconds(); }
  double cpu_seconds() const { return cpu_now() - cpu_start_; }

 private:
  static double cpu_now() {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
  }

  Timer wall_;
  double cpu_start_ = cpu_now();
};

}  // namespace pith
