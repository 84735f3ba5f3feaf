// Rotary position embedding (Su et al., 2021): the first `rotated` numbers of each head are pairs, and pair i is rotated by the
// angle position * inverse_frequency[i] (frequencies.h). The gradient is the same op with `inverse`, which rotates back.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/builder.h"
#include "ops/attributes.h"

namespace plimsoll::ops {

// The change of frequencies for contexts longer than those of the first training. Texts are the names in Hugging Face's
// configurations; that of by_bands, which treats short, middle and long wavelengths separately, is "llama3".
enum class RotaryScaling { none, linear, dynamic, by_bands, yarn, longrope };
std::string attribute_text(RotaryScaling scaling);

struct RotaryAttributes {
  std::int64_t head_size = 0;
  std::int64_t rotated = 0;  // even, and at most head_size
  bool interleaved = false;  // pairs are (2i, 2i + 1), else (i, i + rotated / 2)
  double theta = 10000;
  RotaryScaling scaling = RotaryScaling::none;
  double factor = 0;                              // of all scalings; 0 for yarn and longrope: most / original
  double low = 1, high = 4;                       // by_bands
  std::int64_t original = 0;                      // by_bands, yarn, longrope: the context of the first training
  std::int64_t most = 0;                          // dynamic, yarn, longrope: max_position_embeddings
  double beta_fast = 32, beta_slow = 1;           // yarn
  bool truncate = true;                           // yarn
  double attention_factor = 0;                    // yarn, longrope: 0 or less: by their rule
  double mscale = 0, mscale_all_dim = 0;          // yarn: 0: none
  std::vector<double> short_factor, long_factor;  // longrope: one for each pair
  std::int64_t length = 0;                        // dynamic, longrope: tokens of a planned row
  bool positions = false;                         // second input: the position of each token; else its index
  bool inverse = false;
  friend bool operator==(const RotaryAttributes&, const RotaryAttributes&) = default;
  template <class V>
  void fields(V&& v) const {
    v("head_size", head_size), v("rotated", rotated), v("interleaved", interleaved), v("theta", theta);
    if (scaling != RotaryScaling::none) v("scaling", scaling), v("factor", factor);
    const bool bands = scaling == RotaryScaling::by_bands, yarn = scaling == RotaryScaling::yarn,
               dynamic = scaling == RotaryScaling::dynamic, longrope = scaling == RotaryScaling::longrope;
    if (bands) v("low", low), v("high", high);
    if (bands || yarn || longrope) v("original", original);
    if (dynamic || yarn || longrope) v("most", most);
    if (yarn) v("beta_fast", beta_fast), v("beta_slow", beta_slow), v("truncate", truncate);
    if (yarn || longrope) v("attention_factor", attention_factor);
    if (yarn) v("mscale", mscale), v("mscale_all_dim", mscale_all_dim);
    if (longrope) v("short_factor", short_factor), v("long_factor", long_factor);
    if (dynamic || longrope) v("length", length);
    if (positions) v("positions", positions);
    if (inverse) v("inverse", inverse);
  }
};

// (x [b, t, heads * head_size], [positions i32 [b, t]]) -> the same type as x.
extern const OpDef kRotary;

// `positions` may be invalid; the attribute follows it.
ValueId rotary(GraphBuilder& builder, ValueId x, ValueId positions, RotaryAttributes attributes, std::string name);

}  // namespace plimsoll::ops
