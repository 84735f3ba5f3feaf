// The linear layer over a vocabulary and its softmax cross-entropy in one: loss = logsumexp(h W^T) - (h W^T)[target] (LossTerms),
// in canonical tiles of tokens x vocabulary rows, so that all logits never exist at once. With more `chunks` fewer tiles are
// held; this changes memory and time, never a bit. Targets of -1 are ignored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "device/cpu/gemm.h"
#include "device/cpu/stored_matrix.h"
#include "ops/attributes.h"

namespace plimsoll::cpu {

// With T tiles of tokens and V tiles of the vocabulary:
// - up to T chunks, the logits of ceil(T / chunks) tiles of tokens are held (three products, or one less for each gradient that
// is not made);
// - beyond, ceil(T V / chunks) tiles of one tile of tokens are held, and the others are computed twice (up to four products);
// - if the vocabulary comes in ranges, all tokens are processed together, and the logits of ceil(V / chunks) tiles of the
// vocabulary are
//   held.
struct LossShape {
  std::int64_t tokens = 0, width = 0, vocab = 0;
  int chunks = 1;
  bool in_ranges = false;
  // The type of h. Tiles of w and of the logits' gradient are rounded to it if it has 16 bits; sums of products are fp32.
  DType operands = DType::f32;
  StoredMatrix table = {};    // the format of w, whose tiles are converted if it is not the operands' dtype
  bool dh = true, dw = true;  // the gradients that a backward loss makes
  bool converts_table() const { return table.dtype != operands; }
};

// The rows of w and dw in a call: whole tiles, or all remaining rows. Ranges come in ascending order, first all of them for the
// losses, then all of them for the gradients. Scratch, losses and dh do not change between the calls.
struct VocabRange {
  std::int64_t begin = 0, rows = 0;
  bool losses = true, gradients = true;
};

// loss = L - (1 - label_smoothing) x[target] - label_smoothing mean(x) + z_loss L^2, with logits x and L = logsumexp(x).
struct LossTerms {
  double label_smoothing = 0, z_loss = 0;
};

struct LossPlan {
  std::string implementation;
  Bytes scratch;
  int primitives = 0;               // of the distinct products
  double work = 1;                  // arithmetic as a multiple of that with all logits held
  std::vector<GemmShape> products;  // distinct shapes
};

// The canonical tiles follow from the vocabulary alone; the last ones are shorter.
std::int64_t loss_token_tile(std::int64_t vocab);
inline constexpr std::int64_t kLossVocabTile = ops::kTableRows;

LossPlan plan_loss(const LossShape& shape, bool backward, int threads, bool library = true);

class LinearCrossEntropy {
 public:
  LinearCrossEntropy(const LossShape& shape, bool backward, int threads, const LossTerms& terms = {});

  // h [tokens, width] of `operands`, w [vocab, width] as the shape says, all else fp32; targets [tokens]; writes losses [tokens],
  // 0 for ignored targets. Throws E-DATA-TARGET for targets outside [-1, vocab). Holds one tile for any chunks.
  void forward(const void* h, const void* w, const std::int32_t* targets, float* losses, std::byte* scratch,
               const VocabRange& range) const;
  void forward(const void* h, const void* w, const std::int32_t* targets, float* losses, std::byte* scratch) const {
    forward(h, w, targets, losses, scratch, {.rows = shape_.vocab});
  }

  // Like forward, with the gradient of sum(losses) * inverse_units: writes dh [tokens, width], and adds to dw [vocab, width] or,
  // with `overwrite`, writes it. Needs construction with `backward`. Gradients that the shape does not request may be null.
  void backward(const void* h, const void* w, const std::int32_t* targets, float inverse_units, float* losses, float* dh,
                float* dw, bool overwrite, std::byte* scratch, const VocabRange& range) const;
  void backward(const void* h, const void* w, const std::int32_t* targets, float inverse_units, float* losses, float* dh,
                float* dw, bool overwrite, std::byte* scratch) const {
    backward(h, w, targets, inverse_units, losses, dh, dw, overwrite, scratch, {.rows = shape_.vocab});
  }

  const LossPlan& plan() const { return plan_; }

 private:
  struct Products {  // for one pair of tile sizes
    Gemm logits;
    std::vector<Gemm> gradients;  // those of dh and dw that are made; empty without `backward`
  };
  struct Run;

  LossShape shape_;
  LossTerms terms_;
  LossPlan plan_;
  std::vector<Products> products_;  // [last tile of tokens][last tile of the vocabulary]
};

}  // namespace plimsoll::cpu
