#pragma once

#include <string>
#include <vector>

#include "policy/attention_probs.h"
#include "policy/policy.h"
#include "policy/score_rows.h"

namespace pith {

/// A score made of the attention that some queries pay. Which queries is the spec's to say, in the
/// knobs of attention_knobs().
class AttentionScorer : public Scorer {
 public:
  /// `name` is the policy's, for messages.
  AttentionScorer(std::string name, const Reading& reading)
      : name_(std::move(name)), reading_(reading) {}

  Needs needs() const override { return reading_.needs(); }

  /// Scores of each (layer, KV head) by score_row(); a note where there were fewer queries than the
  /// window asks for. Throws what score_each_row does, and Error(usage) where there are none.
  Scores score(const PolicyContext& context) const final;

 protected:
  const Reading& reading() const { return reading_; }

 private:
  virtual void score_row(const PolicyContext& context, const ScoredRow& row) const = 0;
  /// Working memory of score_row().
  virtual size_t row_bytes(const PolicyContext& context, int layer, int head_kv) const;

  std::string name_;
  Reading reading_;
};

/// The knobs `source` and `window` with these defaults, and behind them `rest`.
std::vector<Knob> attention_knobs(Source source, int window, std::vector<Knob> rest = {});

/// What attention_knobs() were set to.
Reading reading_of(const KnobValues& knobs);

}  // namespace pith
