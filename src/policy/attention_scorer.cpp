#include "policy/attention_scorer.h"

#include <algorithm>

namespace pith {

Scores AttentionScorer::score(const PolicyContext& context) const {
  const int64_t positions = reading_.positions(context, name_);
  Scores scores = score_each_row(
      context, [&](int layer, int head_kv) { return row_bytes(context, layer, head_kv); },
      [&](const ScoredRow& row) { score_row(context, row); });
  if (reading_.counts() && positions < reading_.count) {
    scores.notes.push_back(name_ + ": window " + std::to_string(reading_.count) +
                           " shrank to the " + std::to_string(positions) + " observed positions");
  }
  return scores;
}

size_t AttentionScorer::row_bytes(const PolicyContext& context, int layer, int head_kv) const {
  return attention_tile_bytes(context, reading_, layer, head_kv);
}

std::vector<Knob> attention_knobs(Source source, int window, std::vector<Knob> rest) {
  const std::vector<std::string> names(kSourceNames.begin(), kSourceNames.end());
  std::vector<Knob> knobs = {
      {.name = "source",
       .value = names[size_t(source)],
       .choices = names,
       .help =
           "queries that count: the prompt's last, all, some turned to positions ahead, those of "
           "a pass that repeats the prompt, of one that goes on from it"},
      {.name = "window",
       .value = std::to_string(window),
       .min = 1,
       .max = 64,
       .integer = true,
       .choices = {},
       .help = "positions of the tail, or tokens of the lookahead"}};
  std::ranges::move(rest, std::back_inserter(knobs));
  return knobs;
}

Reading reading_of(const KnobValues& knobs) {
  const auto name = std::ranges::find(kSourceNames, knobs.choice("source"));
  return {.source = Source(name - kSourceNames.begin()), .count = knobs.integer("window")};
}

}  // namespace pith
