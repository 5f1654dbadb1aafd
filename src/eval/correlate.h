#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "eval/rows.h"
#include "pith/pith.hpp"

namespace pith {

struct CorrelateOptions {
  std::vector<std::string> policies = {};  ///< full specs, as rated_policies() gives them
  /// What the masks keep, in turn.
  std::vector<std::string> budgets = {"50%", "25%", "10%", "5%"};
  SessionOptions session = {};
  int masks = 256;
  int positions = 64;  ///< first scored positions of each row over which KL is averaged
  /// Predictions along what the full cache itself would say, greedily, in place of the row's
  /// continuation.
  bool own = false;
  /// Last prompt positions at which the KL is measured as well, after an eviction before them; 0:
  /// none.
  int yardstick = 32;
  uint64_t seed = 1;
};

/// What was thought of the masks of one row, and what they did.
struct RowCorrelation {
  std::string id, kind;
  std::vector<double> kl;  ///< [masks] mean over the later positions, nats
  /// [raters][masks]: each policy's cost of what a mask evicts; last, where there is a yardstick,
  /// the KL measured at the end of the prompt.
  std::vector<std::vector<double>> cost;
};

/// Names of the raters, as a row's costs are ordered.
std::vector<std::string> rater_names(const CorrelateOptions& options);

/// Checks specs and writes them out with all defaults, each once. What draws at random is added,
/// named in `notes`: it rates a mask by how much it evicts and nothing else. Throws Error(usage)
/// for a policy that never evicts.
std::vector<std::string> rated_policies(std::span<const std::string> specs,
                                        std::vector<std::string>& notes);

/// How well policies foresee what evictions do (Behavior-Preserving KV Cache Compression, figure
/// 1). For each row: the context is read once, eviction masks are drawn (see draw_masks; makers are
/// the policies that do not draw at random), each policy says what it thinks of each mask
/// (Policy::mask_costs), and each mask is applied to a fork, which reads the row's continuation,
/// teacher-forced, or what the full cache would say. All masks protect the same entries: those that
/// fit the smallest budget, or, in rows with `prompt_tokens`, the prompt and the newest ones as in
/// run_fidelity. Throws Error(usage) for a budget that keeps everything, for a row with fewer
/// scored positions than asked for or no more context than the yardstick takes, and
/// Error(interrupted) where `progress` says so; rows before it have reached the sink.
void run_correlate(const Model& model, std::span<const FidelityRow> rows,
                   const CorrelateOptions& options,
                   const std::function<void(RowCorrelation&&)>& sink,
                   const Progress& progress = {});

}  // namespace pith
