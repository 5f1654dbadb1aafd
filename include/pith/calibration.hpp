#pragma once

#include <string>
#include <vector>

#include "pith/pith.hpp"

/// What is measured of a model once and then serves every prompt: it belongs to the model, not to
/// the text it was measured on.
namespace pith {

/// How the (layer, KV head) pairs share what is kept where one contest over all of them decides.
struct HeadShares {
  double kept = 0;         ///< kept share of the entries that compete, in (0, 1)
  std::vector<float> row;  ///< [n_layer * n_head_kv], none negative, sum 1
};

/// The measurements of one model.
struct Calibration {
  std::string model_hash;  ///< of the GGUF file, 16 hex digits
  int n_layer = 0, n_head = 0, n_head_kv = 0;
  std::vector<HeadShares> shares;  ///< at least one; `kept` falls
  /// [n_layer * n_head], none negative: a small change delta of a query head's output moves the
  /// next-token distribution by sensitivity / 2 ||delta||^2 (KL, nats), on average over directions
  /// and positions.
  std::vector<float> sensitivity;
};

struct CalibrationOptions {
  int threads = 0;   ///< 0: physical cores
  int samples = 16;  ///< positions, at least, at which each query head's output is changed
};

/// Measures a model on three texts of about a thousand tokens that pith brings: prose, questions
/// with their answers, and facts hidden among filler.
///
/// Head shares: entries are ranked by KVzip's score (their maximum attention in a pass that repeats
/// the text, arXiv 2505.23416) over all layers and heads, sinks and window apart; a head's share is
/// its part of what stays, the mean over the texts.
/// Sensitivity: the last 64 positions of a text are run over its cached rest once as they are and
/// some times for each layer with noise of known size added to the outputs of its query heads, one
/// at each position; twice the mean KL between the two, less that of rounding, over the noise's
/// squared length.
///
/// Deterministic for given options. Throws Error(unsupported) for a model without a tokenizer,
/// Error(memory) where its context is too short for the texts, and Error(interrupted).
Calibration calibrate(const Model& model, const CalibrationOptions& options = {},
                      const Progress& progress = {});

/// The hash of a model's file that calibrations carry. Read from all metadata and a sample of the
/// weights: two models that differ in neither are taken for the same.
std::string model_hash(const Model& model);

/// Writes readable JSON; the file appears whole or not at all. Throws Error(io).
void write_calibration(const Calibration& calibration, const std::string& path);

/// Throws Error(io) where the file cannot be read and Error(bad_file), saying why, where it is
/// broken, of another format version, or of another model than `model`.
Calibration read_calibration(const std::string& path, const Model& model);

}  // namespace pith
