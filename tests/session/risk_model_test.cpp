#include <gtest/gtest.h>

#include <random>

#include "pith/risk.hpp"
#include "support/packaged_model.h"

namespace pith::test {
namespace {

constexpr int kTokens = 400;

/// Random words with a random number each, always the same.
std::string lookup_table() {
  std::mt19937 random(3);
  std::string out;
  for (int line = 0; line < 80; ++line) {
    for (int letter = 0; letter < 4; ++letter) out += char('a' + random() % 26);
    out += ": " + std::to_string(1000 + random() % 9000) + "\n";
  }
  return out;
}

std::string repeated_sentence() {
  std::string out;
  for (int i = 0; i < 40; ++i) {
    out += "The old clock in the hall strikes the hour and nobody listens to it. ";
  }
  return out;
}

struct Tails {
  double mean = 0;     ///< of the heads' shares
  double overall = 0;  ///< all tails together, of all traces
};

/// At a tenth, where the model reads back the whole text.
Tails tails_of(const Model& model, const std::string& text) {
  std::vector<int32_t> tokens = model.tokenize(text);
  EXPECT_GE(tokens.size(), size_t(kTokens));
  tokens.resize(kTokens);
  const RiskOptions options{
      .policy = "streaming", .budgets = {"10%"}, .queries = RiskQueries::repeat};
  Session session(model, {.threads = 2, .n_ctx = 1024});
  session.prefill(tokens, needs_of(options));
  Tails out;
  double tail = 0, trace = 0, heads = 0;
  for (const auto& layer : measure_risk(session, options).layers) {
    for (const HeadRisk& head : layer) {
      out.mean += head.at[0].tail_share;
      tail += head.at[0].tail_share * head.tr;
      trace += head.tr;
      ++heads;
    }
  }
  out.mean /= heads;
  out.overall = tail / trace;
  return out;
}

/// A table to look things up in has a flat tail, a sentence said over and over none: by the mean
/// over heads at least half as much again, over all heads together at least five times.
TEST(RiskOfTexts, ALookupTableHasALargerTailThanARepeatedSentence) {
  const Model model = Model::load(packaged_model());
  const Tails lookup = tails_of(model, lookup_table());
  const Tails repeated = tails_of(model, repeated_sentence());
  RecordProperty("lookup", std::to_string(lookup.mean) + " " + std::to_string(lookup.overall));
  RecordProperty("repeated",
                 std::to_string(repeated.mean) + " " + std::to_string(repeated.overall));
  EXPECT_GT(lookup.mean, 1.5 * repeated.mean);
  EXPECT_GT(lookup.overall, 5 * repeated.overall);
}

}  // namespace
}  // namespace pith::test
