#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "bench_measure.h"
#include "eval/machine.h"

namespace pith::tools {

struct BenchReport {
  std::string model, command;
  Machine machine;
  KvType k_type = KvType::f16, v_type = KvType::f16;
  std::vector<BenchResult> results;
};

/// Generated tokens that the whole of a run is shown for.
inline constexpr int kAnswerTokens = 512;

/// {model, command, machine, results, peers, break_even}; times are medians over repeats.
nlohmann::ordered_json to_json(const BenchReport& report);

/// For the terminal: a line a phase, then speeds relative to the peers.
std::string to_table(const BenchReport& report);

/// A page: the verdict, speeds by length and number of threads, where an answer's time goes, when a
/// compressed cache pays, and all figures.
std::string to_html(const BenchReport& report);

/// Whether several numbers of threads were run.
bool varies_threads(const BenchReport& report);

}  // namespace pith::tools
