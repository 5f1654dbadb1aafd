#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "eval/rows.h"
#include "pith/pith.hpp"

namespace pith {

/// One cell of a comparison: a policy spec at a budget, both as `Session::compress` takes them.
struct FidelityCase {
  std::string policy;
  std::string budget;
};

struct FidelityOptions {
  std::vector<FidelityCase> cases;
  SessionOptions session;
  int diverge = 0;     ///< tokens of the free greedy run; 0: none
  bool trial = false;  ///< also measure each case on the last 64 tokens of the context
};

/// Which entries a compressed cache holds, in buckets of neighbouring positions: bucket b of n
/// spans positions b * n_positions / n up to those of the next.
struct KeptPicture {
  int n_layer = 0, n_head_kv = 0, n_positions = 0;
  /// [n_layer * n_head_kv][buckets] share kept of each bucket, in 255ths; not 0 where any is kept.
  std::vector<std::vector<uint8_t>> rows;
};

/// How one row fared under one case.
struct RowFidelity {
  std::string id, kind;
  std::vector<double> kl;  ///< of each scored position, nats
  double same_top = 0;     ///< share of scored positions
  /// Means over the scored positions with a following token; NaN where there are none.
  double dnll = 0, mean_squared_dp = 0;
  /// First index where the greedy continuations differ; absent where they agree throughout.
  std::optional<int> divergence;
  /// Mean KL over the context's last 64 tokens of a cache that was compressed before them, as
  /// Session::compress_within measures it; absent where it was not asked for or the context has
  /// fewer than 128 tokens after `prompt_tokens`.
  std::optional<double> trial_kl;
  Receipt receipt;
  std::optional<KeptPicture> kept;  ///< of the first row only
};

/// Called after each row with its results in the order of the cases, so that what is there stays
/// paired when a run is stopped.
using FidelitySink = std::function<void(std::span<const RowFidelity>)>;

/// Compares each case with the full cache of the same model on each row (in F16 where the session's
/// types round to bytes, so that `full` shows what that does). The context is read once; a fork of
/// it evaluates the continuation, teacher-forced, with the full cache; then for each case a fork is
/// compressed (the whole context, no token held back) and evaluates the same tokens. In rows with
/// `prompt_tokens` the prompt and the newest 64 entries of each head (or what protection.window
/// says) stay, and the budget is one of the others. Position j counts where score[j] = 1. Errors of
/// a policy are passed on with its name and row. Throws Error(interrupted) where `progress` says
/// so; rows before it have reached the sink.
void run_fidelity(const Model& model, std::span<const FidelityRow> rows,
                  const FidelityOptions& options, const FidelitySink& sink,
                  const Progress& progress = {});

/// The options with types that round to bytes replaced by F16.
SessionOptions unrounded(SessionOptions options);

/// Newest entries of each head that stay on top of the budget in rows with `prompt_tokens`: what
/// protection.window says, else 64.
int generated_window(const SessionOptions& options);

/// Checks specs and budgets and makes the list of cases: each policy at each budget, `full` once at
/// 100%. Policies of `always` that are missing are added in front, each named in `notes`. Specs are
/// written out with all defaults; equal ones count once.
std::vector<FidelityCase> make_cases(std::span<const std::string> policies,
                                     std::span<const std::string> budgets,
                                     std::span<const std::string> always,
                                     std::vector<std::string>& notes);

/// The policies that every honest table shows.
std::span<const std::string> reference_policies();

}  // namespace pith
