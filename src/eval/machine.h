#pragma once

#include <string>

namespace pith {

/// Where a figure was measured.
struct Machine {
  std::string cpu;  ///< model name, or the architecture where the system gives none
  int cores = 0;    ///< logical processors this process may use
  std::string os;   ///< system name and release
};

Machine this_machine();

}  // namespace pith
