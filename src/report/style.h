// The look of a page: its style sheet, with light, dark and print, and the palette of Okabe and Ito, whose colours stay apart for
// colour-blind readers.
#pragma once

namespace plimsoll {

extern const char* const kStyle;

}  // namespace plimsoll
