#include "eval/machine.h"

#include <sched.h>
#include <sys/utsname.h>

#include <fstream>

namespace pith {
namespace {

/// First "model name" of /proc/cpuinfo; empty where there is none.
std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return {};
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
}

}  // namespace

Machine this_machine() {
  utsname system{};
  uname(&system);
  Machine machine;
  machine.cpu = cpu_name();
  if (machine.cpu.empty()) machine.cpu = system.machine;
  machine.cores = usable_cores();
  machine.os = std::string(system.sysname) + " " + system.release;
  return machine;
}

}  // namespace pith
