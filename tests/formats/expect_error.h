// EXPECT_ERROR(statement, code, fragment): the statement throws plimsoll::Error with this code, and its text contains the
// fragment.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

#define EXPECT_ERROR(statement, expected_code, fragment)                                      \
  do {                                                                                        \
    try {                                                                                     \
      statement;                                                                              \
      ADD_FAILURE() << "no error where " << expected_code << " is due";                       \
    } catch (const plimsoll::Error& error) {                                                  \
      EXPECT_EQ(error.code, expected_code) << error.what();                                   \
      EXPECT_NE(std::string(error.what()).find(fragment), std::string::npos) << error.what(); \
    }                                                                                         \
  } while (false)
