#pragma once

#include <chrono>
#include <ctime>

namespace pith {

/// Wall time, and CPU time of all threads of the process, since it was made.
class Timer {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  double cpu_seconds() const { return cpu_now() - cpu_start_; }

 private:
  static double cpu_now() {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
  }

  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  double cpu_start_ = cpu_now();
};

}  // namespace pith
