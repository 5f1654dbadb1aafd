#pragma once

#include <optional>
#include <string>
#include <vector>

#include "eval/fidelity.h"
#include "pith/pith.hpp"

namespace pith::tools {

struct BenchPlan {
  std::vector<FidelityCase> cases;
  std::vector<int> contexts;
  std::vector<int> threads;  ///< everything is run with each of these numbers; session.threads is
                             ///< not read
  int decode = 32;           ///< tokens
  int repeat = 3;
  bool peers = false;  ///< libllama too
  SessionOptions session;
};

/// Seconds and peak memory of one phase, one value a repeat.
struct PhaseSamples {
  std::string phase;
  int tokens = 0;  ///< that the phase worked through
  std::vector<double> wall_s, cpu_s;
  int64_t peak_rss = 0;  ///< bytes, the most of all repeats
};

/// All phases of one runner: a policy at a budget, or a peer.
struct BenchResult {
  int ctx = 0;
  int threads = 0;
  double bandwidth = 0;        ///< of the memory with so many threads, measured, bytes a second
  std::string policy, budget;  ///< a peer has its name as policy and no budget
  bool peer = false;
  std::vector<PhaseSamples> phases;
  double decode_bytes = 0;  ///< weights and cache entries that one decoded token reads; 0: unknown
  double weights_s = 0, attention_s = 0;  ///< of a decoded token; 0 where it cannot be told

  const PhaseSamples* find(const std::string& phase) const;  ///< null where there is none
  /// Median seconds; 0 where there is no such phase.
  double seconds(const std::string& phase) const;
  double token_seconds() const;  ///< of a decoded token
};

/// Runs everything, runners in turn within each repeat so that all meet the same conditions. The
/// prompt is read once a repeat and shared by the cases. Throws Error(interrupted) with what is
/// complete left in `results`.
void run_bench(const Model& model, const BenchPlan& plan, std::vector<BenchResult>& results,
               const Progress& progress);

}  // namespace pith::tools
