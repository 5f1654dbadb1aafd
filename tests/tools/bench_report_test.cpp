#include "bench_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "break_even.h"

namespace pith::tools {
namespace {

using testing::HasSubstr;
using testing::Not;

/// A runner that reads at `threads` tokens a ms and decodes 4 tokens in `decode_s`.
BenchResult runner(int ctx, int threads, const std::string& policy, double decode_s) {
  BenchResult out;
  out.ctx = ctx;
  out.threads = threads;
  out.bandwidth = 1e10 * threads;
  out.policy = policy;
  out.budget = policy == "full" ? "100%" : "10%";
  const double prefill_s = 1e-3 * ctx / threads;
  out.phases.push_back({"prefill", ctx, {prefill_s, 9, prefill_s / 2}, {1, 1, 1}, 1 << 20});
  if (policy != "full") {
    for (const char* phase : {"passes", "score", "select", "apply"}) {
      out.phases.push_back({phase, ctx, {0.1 / threads}, {0.1}, 1 << 20});
    }
  }
  out.phases.push_back({"decode", 4, {decode_s}, {decode_s}, 1 << 20});
  return out;
}

BenchReport some_report() {
  BenchReport report;
  report.model = "/models/some.gguf";
  report.command = "pith bench <all>";
  for (const int threads : {1, 2}) {
    for (const int ctx : {100, 2000}) {
      report.results.push_back(runner(ctx, threads, "full", 0.8 / threads));
      report.results.push_back(runner(ctx, threads, "snapkv", 0.4 / threads));
    }
  }
  return report;
}

/// Each against the full cache of its own length and number of threads.
TEST(BenchReport, BreakEvenIsOfTheSameConditions) {
  const BenchReport report = some_report();
  const auto evens = break_evens(report.results);
  ASSERT_EQ(evens.size(), 4U);
  for (const BreakEven& e : evens) {
    const double threads = e.result->threads;
    EXPECT_DOUBLE_EQ(e.extra_s, 0.4 / threads);
    EXPECT_DOUBLE_EQ(e.full_token_s, 0.2 / threads);
    EXPECT_EQ(e.tokens(), 4);
    EXPECT_DOUBLE_EQ(e.prefill_s, 1e-3 * e.result->ctx / threads);
    EXPECT_DOUBLE_EQ(e.end_to_end_s(10), e.prefill_s + 1.4 / threads);
  }
}

TEST(BenchReport, ACacheThatIsNoFasterNeverPays) {
  std::vector<BenchResult> results{runner(100, 1, "full", 0.4), runner(100, 1, "snapkv", 0.4)};
  EXPECT_EQ(break_evens(results).at(0).tokens(), std::nullopt);
  EXPECT_TRUE(break_evens({results[1]}).empty());
}

TEST(BenchReport, JsonTellsThreadsTypesAndBandwidthOfEachFigure) {
  BenchReport report = some_report();
  report.v_type = KvType::q8_0;
  const auto json = to_json(report);
  ASSERT_EQ(json["results"].size(), 4U * (2 + 6));
  for (const auto& r : json["results"]) {
    EXPECT_EQ(r["memory_bandwidth"], 1e10 * r["threads"].get<double>());
    EXPECT_EQ(r["k_type"], "f16");
    EXPECT_EQ(r["v_type"], "q8_0");
  }
  EXPECT_EQ(json["break_even"][3]["threads"], 2);
}

/// Repeats of 0.05, 0.1 and 9 s.
TEST(BenchReport, FiguresAreMediansWithTheirRange) {
  const auto first = to_json(some_report())["results"][0];
  EXPECT_DOUBLE_EQ(first["wall_ms"], 100);
  EXPECT_DOUBLE_EQ(first["wall_ms_range"].at(0), 50);
  EXPECT_DOUBLE_EQ(first["wall_ms_range"].at(1), 9000);
  EXPECT_THAT(to_table(some_report()), HasSubstr("50.0 - 9000.0"));
}

TEST(BenchReport, ThePageShowsWhatVaries) {
  BenchReport report = some_report();
  const std::string page = to_html(report);
  EXPECT_THAT(page, HasSubstr("decodes 2.00 times as fast as the full cache"));
  EXPECT_THAT(page, HasSubstr("Speed by length of the prompt"));
  EXPECT_THAT(page, HasSubstr("Speed by number of threads"));
  EXPECT_THAT(page, HasSubstr("Reading the prompt, tokens a second by tokens of the prompt"));
  EXPECT_THAT(page, HasSubstr("10.0 GB/s with 1 thread, 20.0 GB/s with 2 threads"));
  EXPECT_THAT(page, HasSubstr("pith bench &lt;all&gt;"));
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, Not(HasSubstr("nan")));

  std::erase_if(report.results, [](const auto& r) { return r.threads == 1 || r.ctx == 100; });
  const std::string one = to_html(report);
  EXPECT_THAT(one, Not(HasSubstr("Speed by number of threads")));
  EXPECT_THAT(one, HasSubstr("Speed at 2,000 tokens of prompt"));
  EXPECT_THAT(one, HasSubstr("Decoding, ms a token"));

  std::erase_if(report.results, [](const auto& r) { return r.policy != "full"; });
  EXPECT_THAT(to_html(report), HasSubstr("The full cache alone was timed."));
}

/// The full cache reads twice as fast with two threads: 0.05 and 0.025 s at 100 tokens.
TEST(BenchReport, TheTableHasALineForEachNumberOfThreads) {
  const std::string table = to_table(some_report());
  EXPECT_THAT(table, HasSubstr("memory bandwidth with 1 thread: 10.0 GB/s"));
  EXPECT_THAT(table, HasSubstr("memory bandwidth with 2 threads: 20.0 GB/s"));
  EXPECT_THAT(table, HasSubstr("pays from token"));
}

}  // namespace
}  // namespace pith::tools
