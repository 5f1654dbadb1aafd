#include <algorithm>
#include <string>

#include "calibration/head_shares.h"
#include "calibration/sensitivity.h"
#include "calibration/texts.h"
#include "pith/calibration.hpp"
#include "session/session.h"

namespace pith {

namespace {

/// Part of the time that one text's shares take, roughly.
constexpr double kShareOfText = 0.15;
/// Positions at which heads' outputs are changed in one run.
constexpr size_t kPositions = 64;
/// Tokens around the repeated text.
constexpr int kRequest = 64;
/// As the session protects by default where much is kept.
constexpr Protection kProtection{.sinks = 4, .window = 32};

Session session_for(const Model& model, std::span<const int32_t> tokens,
                    const CalibrationOptions& options) {
  const int n_ctx = 2 * int(tokens.size()) + kRequest;
  return Session(model, {.threads = options.threads, .n_ctx = n_ctx});
}

std::vector<HeadShares> shares_of(const Model& model, std::span<const int32_t> tokens,
                                  const CalibrationOptions& options, const Progress& progress) {
  const Policy kvzip = Policy::parse("kvzip");
  Session session = session_for(model, tokens, options);
  SessionImpl& impl = session.impl();
  session.prefill(tokens, {.tail = 0}, part_of(progress, 0, 0.3));
  impl.run_passes(kvzip.needs(), part_of(progress, 0.3, 0.7));
  const auto view = view_of(impl.cache, model.shape());
  const PolicyContext context{.cache = *view,
                              .seen = impl.seen,
                              .weights = *model.impl()->view,
                              .protection = kProtection,
                              .threads = impl.options.threads,
                              .repeat = *impl.repeated,
                              .progress = part_of(progress, 0.7, 1)};
  return head_shares(kvzip.score(context), context);
}

std::vector<float> sensitivity_of(const Model& model, std::span<const int32_t> tokens,
                                  const CalibrationOptions& options, const Progress& progress) {
  Session session = session_for(model, tokens, options);
  const size_t before = tokens.size() - std::min(tokens.size() / 2, kPositions);
  session.prefill(tokens.first(before), {.tail = 0});
  return head_sensitivity(session, tokens.subspan(before), options.samples, progress);
}

}  // namespace

Calibration calibrate(const Model& model, const CalibrationOptions& options,
                      const Progress& progress) {
  if (options.samples < 1) {
    throw Error(ErrorCode::usage, "a calibration needs at least 1 sample of each head");
  }
  std::vector<std::vector<int32_t>> texts;
  for (const std::string& text : calibration_texts()) {
    texts.push_back(model.impl()->vocab->tokenize(text, true, false));
    if (int(texts.back().size()) > model.n_ctx_train()) {
      throw Error(ErrorCode::memory,
                  "calibration reads texts of up to " + std::to_string(texts.back().size()) +
                      " tokens, and the model's context is " + std::to_string(model.n_ctx_train()));
    }
  }
  std::vector<std::vector<HeadShares>> shares;
  double done = 0;
  for (const auto& tokens : texts) {
    shares.push_back(
        shares_of(model, tokens, options, part_of(progress, done, done + kShareOfText)));
    done += kShareOfText;
  }
  return {.model_hash = model_hash(model),
          .n_layer = model.shape().n_layer,
          .n_head = model.shape().n_head,
          .n_head_kv = model.shape().n_head_kv,
          .shares = mean_shares(shares),
          .sensitivity = sensitivity_of(model, texts.front(), options, part_of(progress, done, 1))};
}

std::string model_hash(const Model& model) { return model.impl()->weights->hash(); }

}  // namespace pith
