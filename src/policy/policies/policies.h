#pragma once

#include "policy/policy.h"

/// One function a method, each defined in the file of its name; registry.cpp lists them.
namespace pith {

ScoreRow full_row();
ScoreRow random_row();
ScoreRow streaming_row();
ScoreRow snapkv_row();
ScoreRow h2o_row();
ScoreRow tova_row();
ScoreRow scissorhands_row();
ScoreRow expected_row();
ScoreRow caote_row();
ScoreRow sensitivity_row();
ScoreRow defensive_row();
ScoreRow kvzip_row();
ScoreRow kvgrad_row();
ScoreRow rkv_row();
ScoreRow knorm_row();
ScoreRow keydiff_row();
ScoreRow lagkv_row();
ScoreRow leverage_row();
ScoreRow compactor_row();
ScoreRow behavior_row();
ScoreRow deep_row();

}  // namespace pith
