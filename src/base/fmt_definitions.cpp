// The definitions of {fmt} that its headers only declare, compiled once: with FMT_HEADER_ONLY each of some 80 files
// compiled them again (5.3 s of processor time instead of 1.9 for one that does little else). The distribution has
// {fmt} as a shared library alone, which the wheel would need wherever it is installed.

#include <fmt/format-inl.h>
#include <fmt/format.h>

FMT_BEGIN_NAMESPACE
namespace detail {

// What <fmt/format.h> declares as instantiated elsewhere.
template FMT_API auto thousands_sep_impl<char>(locale_ref) -> thousands_sep_result<char>;
template FMT_API auto decimal_point_impl<char>(locale_ref) -> char;

// Templates whose definitions are in <fmt/format-inl.h> alone.
template FMT_API auto dragonbox::to_decimal<float>(float) noexcept -> dragonbox::decimal_fp<float>;
template FMT_API auto dragonbox::to_decimal<double>(double) noexcept -> dragonbox::decimal_fp<double>;
template FMT_API locale_ref::locale_ref(const std::locale&);
template FMT_API auto locale_ref::get<std::locale>() const -> std::locale;

}  // namespace detail
FMT_END_NAMESPACE
