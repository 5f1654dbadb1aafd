#pragma once

#include "policy/policy.h"

/// One function a method, each defined in the file of its name; registry.cpp lists them.
namespace pith {

ScoreRow full_row();
ScoreRow random_row();
ScoreRow streaming_row();
ScoreRow snapkv_row();
ScoreRow behavior_row();

}  // namespace pith
