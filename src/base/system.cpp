#include "base/system.h"

#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <string>
#include <thread>

namespace pith {

int physical_cores() {
  std::set<std::string> cores;
  std::error_code ignored;
  for (const auto& entry :
       std::filesystem::directory_iterator("/sys/devices/system/cpu", ignored)) {
    std::ifstream siblings(entry.path() / "topology" / "thread_siblings_list");
    std::string list;
    if (siblings >> list) cores.insert(list);
  }
  const auto threads = std::max(1U, std::thread::hardware_concurrency());
  return cores.empty() ? int(threads) : std::min(int(cores.size()), int(threads));
}

int64_t peak_rss_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    int64_t kib = 0;
    if (word == "VmHWM:" && status >> kib) return kib * 1024;
  }
  rusage usage{};
  return getrusage(RUSAGE_SELF, &usage) == 0 ? int64_t(usage.ru_maxrss) * 1024 : 0;
}

namespace {

/// What the control group leaves, where it sets a limit.
int64_t group_memory_bytes() {
  int64_t limit = 0, used = 0;
  std::ifstream limit_file("/sys/fs/cgroup/memory.max");
  std::ifstream used_file("/sys/fs/cgroup/memory.current");
  if (!(limit_file >> limit) || !(used_file >> used)) return std::numeric_limits<int64_t>::max();
  return std::max<int64_t>(0, limit - used);
}

int64_t system_memory_bytes() {
  std::ifstream info("/proc/meminfo");
  for (std::string word; info >> word;) {
    int64_t kib = 0;
    if (word == "MemAvailable:" && info >> kib) return kib * 1024;
  }
  return std::numeric_limits<int64_t>::max();
}

}  // namespace

int64_t available_memory_bytes() { return std::min(system_memory_bytes(), group_memory_bytes()); }

}  // namespace pith
