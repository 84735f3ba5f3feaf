// The checks that shape rules share: the number of an op's inputs, their types and their shapes. A failure is E-SHAPE with the
// actual and the expected.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "graph/op.h"

namespace plimsoll::ops {

// Throws E-SHAPE "[where] message; expected" unless `ok`.
void require(bool ok, std::string_view where, const std::string& message, const std::string& expected);
void require_inputs(TypeSpan inputs, std::size_t count, std::string_view where);
// Requires this many inputs, or one more: the coefficient f32 [1] of a window, which is not finite if the window does not count.
void require_guarded_inputs(TypeSpan inputs, std::size_t count, std::string_view where);
void require_same(const ValueType& a, const ValueType& b, std::string_view where);
void require_type(const ValueType& value, const ValueType& expected, std::string_view where, std::string_view what);

// Requires this dtype of all values, for kernels of one dtype.
void require_dtype(TypeSpan values, DType expected, std::string_view where);

// Requires fp32, bf16 or fp16.
void require_computable(const ValueType& value, std::string_view where, std::string_view what = "an input");
void require_computable(DType dtype, std::string_view where, std::string_view what);

// The type of a row of x as fp32: one number for each element of the last axis.
ValueType row_of(const ValueType& x, std::string_view where);

// For the gradient rule of a loss whose backward op takes no gradient: throws E-GRADIENT if its first output has one.
void require_root(const GradientContext& context);

// The rows and columns of a table, which may be stored in blocks.
Shape table_shape(const std::optional<BlockMatrix>& blocks, const ValueType& table, std::string_view where);
// Requires the bytes of such a matrix.
void require_blocks(const ValueType& value, const BlockMatrix& matrix, std::string_view where);

std::string to_text(const ValueType& type);
// Bytes of all inputs and outputs: the traffic of an op that reads or writes each once.
double bytes_touched(TypeSpan inputs, TypeSpan outputs);
// Product of all axes but the last.
std::int64_t rows_of(const Shape& shape);

// Requires sample ids, which select noise: {epoch, sample} of each row, u32 [batch, 2], or for packed rows {epoch, sample,
// position in the sample} of each token, u32 [batch, tokens, 3]. The first axes of x are [batch, tokens].
void require_sample_ids(const ValueType& ids, const Shape& x, std::string_view where);
inline bool name_tokens(const Shape& sample_ids) { return sample_ids.rank() == 3; }

inline constexpr std::string_view kFirstOrderOnly = "it is itself part of a backward pass; second derivatives are not built";
inline constexpr std::string_view kUpdateOnly = "it belongs to the update, which is not differentiated";

}  // namespace plimsoll::ops
