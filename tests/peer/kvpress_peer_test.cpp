#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "cache/kv_cache.h"
#include "eval/text_table.h"
#include "pith/pith.hpp"
#include "session/session.h"
#include "support/logits.h"
#include "support/packaged_model.h"
#include "support/plan_checks.h"
#include "support/temp_file.h"

/// Which entries kvpress keeps of a text, and which pith keeps with the same number of entries.
namespace pith {
namespace {

using nlohmann::json;
using Kept = std::vector<std::vector<int32_t>>;  // [n_rows][kept positions, ascending]

constexpr size_t kTokens = 1000;
constexpr double kSame = 0.99;  // F32 sums of another order may turn near-ties

/// A press (its name in kvpress_kept.py) and what it corresponds to.
struct Pair {
  std::string press;
  std::string spec;
  Protection protection;   ///< what the press protects by itself
  std::string difference;  ///< why the entries may differ; empty where the definition is the same
};

std::vector<Pair> pairs() {
  return {
      {"StreamingLLM", "streaming", {4, 0}, ""},
      {"Knorm", "knorm", {0, 0}, ""},
      {"KeyDiff", "keydiff", {0, 0}, ""},
      {"LagKV", "lagkv", {4, 0}, ""},
      {"TOVA", "tova", {0, 1}, ""},
      {"ObservedAttention", "h2o(recent=0)", {0, 0}, ""},
      {"SnapKV", "snapkv(window=64)", {0, 64}, ""},
      {"ExpectedAttention", "expected(eps=0)", {4, 0}, ""},
      {"KVzip", "kvzip", {4, 0}, "another wording of the request to repeat"},
      {"KVgrad", "kvgrad", {4, 0}, "kvpress multiplies by a gradient, pith has none"},
      {"LeverageScore", "leverage", {0, 0}, "kvpress sketches the keys at random"},
      {"LeverageScore(no sketch)", "leverage", {0, 0}, ""},
      {"Compactor", "compactor", {8, 4}, "a random sketch; stretches begin after the 8 sinks"},
      {"Compactor(no sketch)", "compactor", {8, 4}, "stretches begin after the 8 sinks"},
      {"PyramidKV(window 8)",
       "snapkv(window=8)+pyramid",
       {0, 8},
       "kvpress counts the window in a layer's budget, pith apart"},
      {"AdaKV(SnapKV)", "snapkv(window=64)+ada", {0, 64}, ""},
      {"AdaKV(KeyDiff)", "keydiff+ada", {0, 0}, ""},
      {"AdaKV(ExpectedAttention)", "expected(eps=0)+ada", {4, 0}, ""},
      {"CriticalKV(TOVA)", "tova+critical", {0, 1}, ""},
      {"CriticalKV(SnapKV)",
       "snapkv(window=64)+critical",
       {0, 64},
       "the first half of kvpress includes the window, pith halves what is contested"},
      {"CriticalAdaKV(SnapKV)",
       "snapkv(window=64)+critical+ada",
       {0, 64},
       "the first half of kvpress includes the window, pith halves what is contested"},
      {"ChunkKV(SnapKV)",
       "snapkv(window=64)+chunk",
       {0, 64},
       "kvpress sums over the KV heads of a layer and counts whole chunks"},
  };
}

/// The policy, or nothing where pith has no score of that name.
std::optional<Policy> policy_of(const std::string& spec) {
  const std::string score = spec.substr(0, spec.find_first_of("(+"));
  const auto known = [&](const ScoreRow& row) { return row.name == score; };
  if (std::ranges::none_of(score_rows(), known)) return std::nullopt;
  return Policy::parse(spec);
}

std::string peer_python() {
  const auto models = std::filesystem::path(test::packaged_model()).parent_path();
  return (models.parent_path() / "peers/bin/python").string();
}

/// What kvpress says of these tokens; null where it fails.
json run_kvpress(const std::vector<int32_t>& tokens) {
  const test::TempFile rows(json({{"id", "text"}, {"context_ids", tokens}}).dump(), ".jsonl");
  const test::TempFile out({}, ".json"), log({}, ".log");
  std::string command = "'" + peer_python() + "' '" PITH_TEST_DATA "/../peer/kvpress_kept.py'" +
                        " --model '" + test::packaged_model() + "' --rows '" + rows.path() +
                        "' --out '" + out.path() + "' --keep 0.25";
  for (const Pair& pair : pairs()) {
    if (policy_of(pair.spec)) command += " '" + pair.press + "'";
  }
  if (std::system((command + " >'" + log.path() + "' 2>&1").c_str()) != 0) {
    ADD_FAILURE() << test::read_file(log.path());
    return nullptr;
  }
  return json::parse(test::read_file(out.path()));
}

Session open_session(const Model& model) {
  return Session(model, {.n_ctx = 4096, .k_type = KvType::f32, .v_type = KvType::f32});
}

/// What pith keeps of the session's cache.
Kept kept_by_pith(Session& session, const Policy& policy, const Protection& protection,
                  int64_t keep_total) {
  SessionImpl& impl = session.impl();
  impl.run_passes(policy.needs(), {});
  const PolicyInput input = impl.input_of(policy, keep_total, protection, {});
  return test::kept(policy.select(policy.score(input.context), input.context));
}

Kept kept_by_kvpress(const json& layers) {
  Kept out;
  for (const json& layer : layers) {
    for (const json& head : layer) out.push_back(head.get<std::vector<int32_t>>());
  }
  return out;
}

int64_t count(const Kept& kept) {
  int64_t sum = 0;
  for (const auto& row : kept) sum += int64_t(row.size());
  return sum;
}

/// Share of the entries that both keep.
double overlap(const Kept& a, const Kept& b) {
  std::vector<int32_t> both;
  int64_t common = 0;
  for (size_t row = 0; row < a.size(); ++row) {
    both.clear();
    std::ranges::set_intersection(a[row], b.at(row), std::back_inserter(both));
    common += int64_t(both.size());
  }
  return double(common) / double(std::max(count(a), count(b)));
}

class KvpressTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(peer_python())) {
      GTEST_SKIP() << "kvpress is not installed: make peers fetches it";
    }
  }
};

TEST_F(KvpressTest, KeepsTheSameEntries) {
  const Model model = Model::load(test::packaged_model(), {.dequantize_weights = true});
  std::vector<int32_t> tokens = model.tokenize(test::long_text());
  tokens.resize(kTokens);
  const json peer = run_kvpress(tokens);
  ASSERT_FALSE(peer.is_null());

  Session reading = open_session(model);
  reading.prefill(std::span(tokens).first(kTokens - 1));
  const auto peer_logits = peer["logits"].get<std::vector<float>>();
  EXPECT_LT(test::nmse(reading.decode(tokens.back()), peer_logits), 1e-6);

  Session session = open_session(model);
  session.prefill(tokens, {.tail = 64, .prompt = true});
  TextTable table({"kvpress", "pith", "definition", "overlap %"}, 3);
  for (const Pair& pair : pairs()) {
    const auto policy = policy_of(pair.spec);
    if (!policy) {
      table.add({pair.press, pair.spec, "pith has none", "-"});
      continue;
    }
    const Kept theirs = kept_by_kvpress(peer["kept"][pair.press]);
    const Kept ours = kept_by_pith(session, *policy, pair.protection, count(theirs));
    const double same = overlap(ours, theirs);
    const bool defined_alike = pair.difference.empty();
    table.add(
        {pair.press, pair.spec, defined_alike ? "same" : pair.difference, fixed(100 * same, 2)});
    EXPECT_GE(same, defined_alike ? kSame : 0) << pair.press << " and " << pair.spec;
  }
  std::cout << table.text();
}

}  // namespace
}  // namespace pith
