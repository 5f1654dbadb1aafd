// The smallest budget that keeps the predictions of the prompt's last tokens.

#include <array>
#include <cmath>
#include <optional>

#include "base/timer.h"
#include "session/trial.h"

namespace pith {
namespace {

/// Parts of the progress: up to the first trial, and up to the last.
constexpr double kSetUpShare = 0.2, kTrialsShare = 0.8;

/// Of a search that has tried nothing: the whole cache stays.
MaxKlReceipt whole_cache(double max_kl) {
  MaxKlReceipt out;
  out.asked = max_kl;
  out.budget = "100%";
  out.tokens = kTrialTokens;
  return out;
}

/// Bisection over ascending places [0, count): the first that passes where passing one means
/// passing all after it. Else one that passes; `count` where none was found.
template <typename Passes>
size_t first_passing(size_t count, Passes passes) {
  size_t low = 0, high = count;  // all before `low` failed, `high` passed
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (passes(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return high;
}

/// Places of trial_budgets() that leave room for what is protected, from the first on; `note` says
/// why others do not.
std::span<const std::string> budgets_with_room(const SessionImpl& session, const Policy& policy,
                                               std::string& note) {
  const auto all = trial_budgets();
  for (size_t i = 0; i < all.size(); ++i) {
    try {
      session.check_budget(policy, Budget::parse(all[i]),
                           session.cache.next_position() - kTrialTokens);
      return all.subspan(i);
    } catch (const Error& e) {
      if (e.code() != ErrorCode::budget) throw;
      note = "budgets up to " + all[i] + " were not tried: " + e.what();
    }
  }
  return {};
}

}  // namespace

std::span<const std::string> trial_budgets() {
  static const std::array<std::string, 15> kShares{"2%",  "3%",  "4%",  "5%",  "7%",
                                                   "10%", "14%", "20%", "25%", "30%",
                                                   "40%", "50%", "60%", "75%", "90%"};
  return kShares;
}

void check_max_kl(double max_kl) {
  if (std::isfinite(max_kl) && max_kl > 0) return;
  throw Error(ErrorCode::usage, "the most KL is a number above 0, in nats");
}

MaxKlReceipt SessionImpl::search_budget(const Policy& policy, double max_kl,
                                        std::vector<std::string>& notes,
                                        const Progress& progress) const {
  const Timer timer;
  MaxKlReceipt found = whole_cache(max_kl);
  std::string note;
  const auto budgets = budgets_with_room(*this, policy, note);
  if (!note.empty()) notes.push_back(note);
  if (budgets.empty()) return found;
  const Trial trial(*this, policy.needs(), part_of(progress, 0, kSetUpShare));
  const double step = (1 - kSetUpShare) / std::ceil(std::log2(double(budgets.size() + 1)));
  const size_t chosen = first_passing(budgets.size(), [&](size_t i) {
    const double from = kSetUpShare + step * double(found.tried.size());
    const double kl = trial.kl([&](SessionImpl& copy) {
      copy.compress(policy, Budget::parse(budgets[i]), part_of(progress, from, from + step));
    });
    found.tried.push_back({budgets[i], kl});
    if (kl > max_kl || std::isnan(kl)) return false;
    found.measured = kl;
    found.budget = budgets[i];
    return true;
  });
  if (chosen == budgets.size()) {
    notes.push_back("no budget tried keeps the KL that was asked for: the whole cache stays");
  }
  found.seconds = timer.seconds();
  return found;
}

Receipt SessionImpl::compress_within(const Policy& policy, double max_kl,
                                     const Progress& progress) {
  check_max_kl(max_kl);
  check_trial(int64_t(tokens.size()));
  check_observed(policy.needs(), "policy " + policy.row().name);
  std::vector<std::string> notes;
  MaxKlReceipt found = whole_cache(max_kl);
  if (!policy.keeps_all()) {
    found = search_budget(policy, max_kl, notes, part_of(progress, 0, kTrialsShare));
  }
  compress(policy, Budget::parse(found.budget), part_of(progress, kTrialsShare, 1));
  done.max_kl = std::move(found);
  done.notes.insert(done.notes.end(), notes.begin(), notes.end());
  return receipt();
}

}  // namespace pith
