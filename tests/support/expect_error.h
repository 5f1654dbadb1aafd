#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "pith/error.hpp"

namespace pith::test {

/// Expects `run` to throw Error(code) with one line that contains `part`.
inline void expect_error(ErrorCode code, const std::string& part,
                         const std::function<void()>& run) {
  try {
    run();
  } catch (const Error& error) {
    const std::string what = error.what();
    EXPECT_EQ(error.code(), code) << what;
    EXPECT_NE(what.find(part), std::string::npos) << what << "\nlacks: " << part;
    EXPECT_EQ(what.find('\n'), std::string::npos) << what;
    return;
  }
  ADD_FAILURE() << "no error, expected one with: " << part;
}

}  // namespace pith::test
