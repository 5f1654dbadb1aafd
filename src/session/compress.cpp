#include <algorithm>

#include "base/timer.h"
#include "pith/calibration.hpp"
#include "policy/abstain.h"
#include "policy/protection.h"
#include "session/session.h"

namespace pith {
namespace {

/// Says it once, however often it was done.
void add_note(Receipt& receipt, const std::string& note) {
  if (std::ranges::find(receipt.notes, note) == receipt.notes.end()) receipt.notes.push_back(note);
}

/// Part of compress() that passes beyond the prompt take, about.
constexpr double kPassesShare = 0.9;

/// Who reads the prompt's queries for SessionOptions::max_risk, for messages.
constexpr const char* kAbstaining = "keeping risky heads whole";

size_t bytes_of(const std::vector<std::vector<float>>& layers) {
  size_t floats = 0;
  for (const auto& layer : layers) floats += layer.capacity();
  return floats * sizeof(float);
}

size_t bytes_of(const Observation& seen) {
  return bytes_of(seen.query) + bytes_of(seen.own_keys) + bytes_of(seen.own_values);
}

/// What the receipt of a policy that uses a calibration says of it.
std::string calibration_note(const Calibration* calibration) {
  if (calibration != nullptr) return "calibration " + calibration->model_hash;
  return "no calibration: all heads are taken to be alike";
}

}  // namespace

size_t counted_entry_bytes(const CacheGeometry& geometry, bool weighed) {
  return geometry.entry_bytes() + sizeof(int32_t) + (weighed ? sizeof(float) : 0);
}

void SessionImpl::check_observed(const Needs& need, const std::string& reader) const {
  const int32_t next = cache.next_position();
  const auto check_all = [&](int32_t observed) {
    if (observed == next) return;
    throw Error(ErrorCode::usage, reader + " reads the queries of the whole prompt, and " +
                                      std::to_string(observed) + " of " + std::to_string(next) +
                                      " were observed");
  };
  if (need.prompt) check_all(int32_t(prompt->positions.size()));
  if (need.future) check_all(future->end - future->first);
  if (need.tail > 0) check_tail(reader);
}

void SessionImpl::check_tail(const std::string& reader) const {
  if (seen.positions.empty()) {
    throw Error(ErrorCode::usage,
                reader + " reads the prompt's last positions, and none were observed");
  }
  const int32_t later = cache.next_position() - 1 - seen.positions.back();
  if (later > 0) {
    throw Error(ErrorCode::usage, reader + " reads the last positions, and " +
                                      std::to_string(later) +
                                      " tokens were run after those that prefill observed");
  }
}

size_t SessionImpl::held_for(const Needs& need) const {
  size_t bytes = need.prompt ? bytes_of(*prompt) : 0;
  if (need.future) bytes += bytes_of(future->seen);
  if (need.lookahead > 0) bytes += bytes_of(ahead->seen);
  if (!need.repeat) return bytes;
  for (const Observation& part : *repeated) bytes += bytes_of(part);
  return bytes;
}

PolicyInput SessionImpl::input_of(const Policy& policy, int64_t keep_total,
                                  const Protection& protection, const Progress& progress) const {
  return input_for(policy.needs(), "policy " + policy.row().name, keep_total, protection, progress);
}

/// What something that reads `need` is shown.
PolicyInput SessionImpl::input_for(const Needs& need, const std::string& reader, int64_t keep_total,
                                   const Protection& protection, const Progress& progress) const {
  check_observed(need, reader);
  auto view = view_of(cache, model.shape());
  auto tail = std::make_unique<const Observation>(seen.tail(need.tail));
  const PolicyContext context{.cache = *view,
                              .seen = *tail,
                              .weights = *model.impl()->view,
                              .protection = protection,
                              .keep_total = keep_total,
                              .threads = options.threads,
                              .prompt = need.prompt ? prompt.get() : nullptr,
                              .future = need.future ? &future->seen : nullptr,
                              .repeat = need.repeat ? std::span<const Observation>(*repeated)
                                                    : std::span<const Observation>(),
                              .lookahead = need.lookahead > 0 ? &ahead->seen : nullptr,
                              .scratch_bytes = options.scratch_bytes,
                              .calibration = options.calibration.get(),
                              .progress = progress};
  return {std::move(view), std::move(tail), context};
}

int64_t SessionImpl::kept_by(const Budget& budget, bool weighed) const {
  return budget.total_entries(cache.total_entries(), model.shape().n_rows(),
                              counted_entry_bytes(cache.geometry(), weighed));
}

int64_t SessionImpl::kept_by(const Budget& budget, bool weighed, int32_t from, int window) const {
  const ModelShape& shape = model.shape();
  int64_t newest = 0;
  for (int row = 0; row < shape.n_rows(); ++row) {
    const auto positions = cache.positions(row / shape.n_head_kv, row % shape.n_head_kv);
    const auto after = positions.end() - std::ranges::lower_bound(positions, from);
    newest += std::min(int64_t(window), int64_t(after));
  }
  const int64_t others = cache.total_entries() - entries_before(from) - newest;
  return cache.total_entries() - others +
         budget.total_entries(others, shape.n_rows(),
                              counted_entry_bytes(cache.geometry(), weighed));
}

/// The step after selection that SessionOptions::max_risk asks for.
void SessionImpl::keep_risky_whole(Plan& plan, Receipt& record) const {
  const PhaseTimer timer;
  const PolicyInput input = input_for(abstain_needs(), kAbstaining, plan.total(), {}, {});
  const size_t noted = plan.notes.size();
  const size_t used = abstain(plan, *options.max_risk, input.context);
  for (size_t n = noted; n < plan.notes.size(); ++n) add_note(record, plan.notes[n]);
  record.scratch_peak = std::max(record.scratch_peak, used + held_for(abstain_needs()));
  record.time_s.select += timer.seconds();
  record.cpu_s.select += timer.cpu_seconds();
}

Plan SessionImpl::plan(const Policy& policy, int64_t keep_total, const Protection& protection,
                       const Progress& progress, Receipt& record) const {
  const ModelShape& shape = model.shape();
  const Needs need = policy.needs();
  const PolicyInput input = input_of(policy, keep_total, protection, progress);
  const PolicyContext& context = input.context;
  const PhaseTimer scoring;
  const Scores scores = policy.score(context);
  record.time_s.score += scoring.seconds();
  record.cpu_s.score += scoring.cpu_seconds();
  const PhaseTimer selecting;
  Plan plan = policy.select(scores, context);
  record.time_s.select += selecting.seconds();
  record.cpu_s.select += selecting.cpu_seconds();
  record.scratch_peak = std::max(record.scratch_peak, plan.scratch_peak + held_for(need));
  if (need.calibration) add_note(record, calibration_note(options.calibration.get()));
  for (const std::string& note : plan.notes) add_note(record, note);
  record.entries_protected = 0;
  for (int r = 0; r < shape.n_rows(); ++r) {
    record.entries_protected += cache.length(r / shape.n_head_kv, r % shape.n_head_kv) -
                                eligible_entries(context, r).count();
  }
  return plan;
}

void SessionImpl::check_budget(const Policy& policy, const Budget& budget, int64_t n_tokens) const {
  const int rows = model.shape().n_rows();
  const int64_t full = n_tokens * rows;
  const int64_t kept =
      budget.total_entries(full, rows, counted_entry_bytes(cache.geometry(), policy.weighs()));
  if (!policy.keeps_all() && kept < full) fit_protection(kept, rows, options.protection);
}

Receipt SessionImpl::begin_receipt(const Policy& policy, const Budget& budget) const {
  Receipt next = done;
  describe_cache(next);
  next.entries_full = next.entries_kept;
  next.bytes_full = next.bytes_kept;
  next.resident_full = next.resident_kept;
  next.policy = policy.spec();
  next.budget_requested = budget.text();
  if (next.entries_full == 0) throw Error(ErrorCode::usage, "there is nothing to compress yet");
  for (PhaseTimes* times : {&next.time_s, &next.cpu_s}) {
    times->score = times->select = times->apply = 0;
  }
  next.scratch_peak = 0;
  next.max_kl.reset();
  return next;
}

Receipt SessionImpl::compress(const Policy& policy, const Budget& budget,
                              const Progress& progress) {
  const Receipt begun = begin_receipt(policy, budget);
  const int64_t keep_total = kept_by(budget, policy.weighs());
  const bool evicts = !policy.keeps_all() && keep_total < begun.entries_full;
  const Protection protection =
      evicts ? fit_protection(keep_total, model.shape().n_rows(), options.protection)
             : Protection{};
  return compress_to(policy, keep_total, protection, progress, begun);
}

Receipt SessionImpl::compress_after(int32_t from, int window, const Policy& policy,
                                    const Budget& budget, const Progress& progress) {
  return compress_to(policy, kept_by(budget, policy.weighs(), from, window),
                     {.sinks = 0, .window = window, .prompt = from}, progress,
                     begin_receipt(policy, budget));
}

Receipt SessionImpl::compress_to(const Policy& policy, int64_t keep_total,
                                 const Protection& protection, const Progress& progress,
                                 Receipt next) {
  if (policy.keeps_all() || keep_total >= next.entries_full) {
    if (!policy.keeps_all()) next.notes.push_back("the budget holds the whole cache");
    next.entries_protected = next.entries_full;
  } else {
    const double passes = passes_hold(policy.needs()) ? 0 : kPassesShare;
    run_passes(policy.needs(), part_of(progress, 0, passes));
    next.time_s.observe = done.time_s.observe;
    next.cpu_s.observe = done.cpu_s.observe;
    if (options.max_risk) check_observed(abstain_needs(), kAbstaining);
    Plan made = plan(policy, keep_total, protection, part_of(progress, passes, 1), next);
    if (options.max_risk) keep_risky_whole(made, next);
    const PhaseTimer applying;
    cache.apply(made);
    forget_passes();
    next.time_s.apply += applying.seconds();
    next.cpu_s.apply += applying.cpu_seconds();
  }
  describe_cache(next);
  compressed = true;
  done = std::move(next);
  return receipt();
}

}  // namespace pith
