#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "eval/fidelity.h"
#include "eval/metrics.h"
#include "support/expect_error.h"
#include "support/fidelity_rows.h"
#include "support/tiny_model.h"

namespace pith {
namespace {

constexpr int kVocab = 64;

FidelityRow row(const std::string& id, int context, int continuation, int seed) {
  return test::arithmetic_row(id, context, continuation, seed, kVocab);
}

class Fidelity : public ::testing::Test {
 protected:
  std::vector<std::vector<RowFidelity>> run(const std::vector<FidelityRow>& rows,
                                            const Progress& progress = {}) {
    std::vector<std::vector<RowFidelity>> out;
    run_fidelity(
        model_, rows, options_,
        [&](std::span<const RowFidelity> results) {
          out.emplace_back(results.begin(), results.end());
        },
        progress);
    return out;
  }

  test::TinyModel file_;
  Model model_ = Model::load(file_.path());
  FidelityOptions options_{.cases = {{"full", "100%"}, {"random", "25%"}, {"random", "100%"}},
                           .session = {.threads = 1, .n_ctx = 512},
                           .diverge = 12};
};

TEST_F(Fidelity, WholeCachesChangeExactlyNothing) {
  const auto results = run({row("a", 90, 150, 3)});  // more than one chunk of continuation
  for (const size_t whole : {0U, 2U}) {
    const RowFidelity& r = results[0][whole];
    ASSERT_EQ(r.kl.size(), 150U);
    for (const double kl : r.kl) EXPECT_EQ(kl, 0);
    EXPECT_EQ(r.same_top, 1);
    EXPECT_EQ(r.dnll, 0);
    EXPECT_EQ(r.mean_squared_dp, 0);
    EXPECT_FALSE(r.divergence.has_value());
  }
}

TEST(FidelityOfBytes, IsMeasuredAgainstHalves) {
  const test::TinyModel file({.head_dim = 32, .n_vocab = kVocab});
  const Model model = Model::load(file.path());
  FidelityOptions options{.cases = {{"full", "100%"}}, .session = {.threads = 1, .n_ctx = 512}};
  const auto kl = [&](KvType type) {
    options.session.k_type = options.session.v_type = type;
    std::vector<double> out;
    run_fidelity(model, std::vector{row("a", 90, 20, 3)}, options,
                 [&](std::span<const RowFidelity> results) { out = results[0].kl; });
    return out;
  };
  for (const double none : kl(KvType::f16)) EXPECT_EQ(none, 0);
  const auto of_bytes = kl(KvType::q8_0);
  EXPECT_GT(*std::ranges::max_element(of_bytes), 0);
  EXPECT_LT(*std::ranges::max_element(of_bytes), 0.01);
}

TEST_F(Fidelity, AgreesWithTheProtocolStepByStep) {
  FidelityRow r = row("a", 90, 20, 3);
  r.score.assign(20, 0);
  r.score[4] = r.score[19] = 1;
  const RowFidelity result = run({r})[0][1];

  Session full(model_, options_.session);
  full.prefill(r.context);
  Session compressed = full.fork();
  compressed.compress("random", "25%");
  const auto p = full.evaluate(r.continuation), q = compressed.evaluate(r.continuation);
  auto change = [&](size_t at, std::optional<int32_t> next) {
    const auto first = at * kVocab;
    return compare_logits(std::span(p).subspan(first, kVocab), std::span(q).subspan(first, kVocab),
                          next);
  };
  const PredictionChange middle = change(4, r.continuation[5]), last = change(19, std::nullopt);
  ASSERT_EQ(result.kl.size(), 2U);
  EXPECT_NEAR(result.kl[0], middle.kl, 1e-12);
  EXPECT_NEAR(result.kl[1], last.kl, 1e-12);
  EXPECT_GT(result.kl[0], 0);
  EXPECT_NEAR(result.dnll, *middle.dnll, 1e-12);  // nothing follows the last position
  EXPECT_NEAR(result.mean_squared_dp, *middle.dp * *middle.dp, 1e-12);
  EXPECT_EQ(result.receipt.entries_full, 90 * model_.shape().n_rows());
  EXPECT_EQ(result.receipt.entries_kept, result.receipt.entries_full / 4);
}

TEST_F(Fidelity, ARowDoesNotDependOnThoseBefore) {
  const auto a = row("a", 80, 10, 3), b = row("b", 60, 10, 9);
  const auto results = run({a, b, a});
  ASSERT_EQ(results.size(), 3U);
  EXPECT_EQ(results[0][1].kl, results[2][1].kl);
  EXPECT_NE(results[0][1].kl, results[1][1].kl);
}

TEST_F(Fidelity, RecordsWhichEntriesStayOfTheFirstRow) {
  options_.cases = {{"full", "100%"}, {"streaming", "25%"}};
  const auto a = row("a", 400, 4, 3);
  const auto results = run({a, a});
  EXPECT_FALSE(results[1][0].kept.has_value());
  const KeptPicture& full = *results[0][0].kept;
  EXPECT_EQ(full.n_positions, 400);
  ASSERT_EQ(int(full.rows.size()), model_.shape().n_rows());
  for (const auto& strip : full.rows) EXPECT_EQ(strip, std::vector<uint8_t>(200, 255));
  for (const auto& strip : results[0][1].kept->rows) {
    EXPECT_EQ(strip.front(), 255);  // the sinks
    EXPECT_EQ(strip[100], 0);
    EXPECT_EQ(strip.back(), 255);
  }
}

/// Of 150 entries a head the prompt's 30 and the newest 64 stay, and a quarter of the other 56.
TEST_F(Fidelity, GenerationRowsKeepPromptAndNewestOnTopOfTheBudget) {
  FidelityRow r = row("g", 150, 20, 3);
  r.prompt_tokens = 30;
  const auto results = run({r})[0];
  const int64_t heads = model_.shape().n_rows();
  EXPECT_EQ(results[0].receipt.entries_kept, 150 * heads);
  EXPECT_EQ(results[1].receipt.entries_kept, (30 + 64 + 14) * heads);
  EXPECT_EQ(results[1].receipt.entries_protected, (30 + 64) * heads);
  for (const auto& kept : results[1].kept->rows) {
    for (size_t p = 0; p < 30; ++p) EXPECT_GT(kept[p], 0) << p;
    for (size_t p = 86; p < 150; ++p) EXPECT_GT(kept[p], 0) << p;
  }
  EXPECT_EQ(results[2].receipt.entries_kept, 150 * heads);
}

TEST_F(Fidelity, AGenerationRowShorterThanItsWindowKeepsAll) {
  FidelityRow r = row("g", 70, 20, 3);
  r.prompt_tokens = 30;
  const auto results = run({r});
  for (const RowFidelity& result : results[0]) {
    for (const double kl : result.kl) EXPECT_EQ(kl, 0);
  }
}

/// The trial is the protocol itself, with the context cut before its last 64 tokens.
TEST_F(Fidelity, ATrialIsARowThatEndsEarlier) {
  options_.trial = true;
  for (const int prompt_tokens : {0, 40}) {
    FidelityRow whole = row("a", 200, 20, 3), cut = whole;
    whole.prompt_tokens = cut.prompt_tokens = prompt_tokens;
    cut.context.resize(136);
    cut.continuation.assign(whole.context.begin() + 136, whole.context.end());
    cut.score.assign(64, 1);
    const auto trials = run({whole})[0], rows = run({cut})[0];
    for (size_t c = 0; c < options_.cases.size(); ++c) {
      ASSERT_TRUE(trials[c].trial_kl.has_value());
      EXPECT_NEAR(*trials[c].trial_kl, mean(rows[c].kl), 1e-3 * mean(rows[c].kl) + 1e-12);
    }
    EXPECT_GT(*trials[1].trial_kl, 0);
  }
}

TEST_F(Fidelity, AShortRowHasNoTrial) {
  options_.trial = true;
  FidelityRow generation = row("g", 150, 20, 3);
  generation.prompt_tokens = 30;
  for (const auto& results : run({row("a", 127, 20, 3), generation})) {
    for (const RowFidelity& result : results) EXPECT_FALSE(result.trial_kl.has_value());
  }
}

TEST_F(Fidelity, StoppedRunsKeepWholeRows) {
  std::vector<std::vector<RowFidelity>> kept;
  const auto r = row("a", 80, 10, 3);
  const std::vector<FidelityRow> rows{r, r};
  test::expect_error(ErrorCode::interrupted, "interrupted", [&] {
    run_fidelity(
        model_, rows, options_,
        [&](std::span<const RowFidelity> results) {
          kept.emplace_back(results.begin(), results.end());
        },
        [](double share) { return share < 0.6; });
  });
  ASSERT_EQ(kept.size(), 1U);
  EXPECT_EQ(kept[0].size(), options_.cases.size());
}

/// Reading takes the first quarter; the pass after it goes on from there, and can be stopped.
TEST_F(Fidelity, APassBeyondThePromptReportsItsProgress) {
  options_.cases = {{"snapkv(source=lookahead)", "25%"}};
  std::vector<double> shares;
  run({row("a", 90, 20, 3)}, [&](double share) {
    shares.push_back(share);
    return true;
  });
  EXPECT_TRUE(std::ranges::is_sorted(shares));
  const auto passing = [](double share) { return share > 0.25 && share < 0.5; };
  EXPECT_GE(std::ranges::count_if(shares, passing), 10);
  test::expect_error(ErrorCode::interrupted, "", [&] {
    run({row("a", 90, 20, 3)}, [&](double share) { return !passing(share); });
  });
}

TEST_F(Fidelity, ErrorsNamePolicyAndRow) {
  options_.cases = {{"random", "1"}};
  options_.session.protection = {.sinks = 40, .window = 40};
  test::expect_error(ErrorCode::budget, "random at 1, row a", [&] { run({row("a", 90, 5, 1)}); });
}

}  // namespace
}  // namespace pith
