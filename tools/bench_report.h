#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "bench_measure.h"

namespace pith::tools {

struct BenchReport {
  std::string model, command;
  int threads = 0;
  double bandwidth = 0;  ///< measured, bytes a second
  std::vector<BenchResult> results;
};

/// {model, command, machine, memory_bandwidth, results, peers}; times are medians over repeats.
nlohmann::ordered_json to_json(const BenchReport& report);

/// For the terminal: a line a phase, then speeds relative to the peers.
std::string to_table(const BenchReport& report);

}  // namespace pith::tools
