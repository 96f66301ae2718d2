# What a report's page is made of, as text in the program: the files of src/page/assets, and dygraphs from the Debian
# package libjs-dygraphs with its licence. A step of the build:
#   cmake -DOUTPUT=FILE -DASSETS=FOLDER -DCHART=FOLDER -DCHART_LICENCE=FILE -P page_assets.cmake

function(add_text name)
  set(text "")
  foreach(path IN LISTS ARGN)
    file(READ "${path}" part)
    string(APPEND text "${part}\n")
  endforeach()
  # A source map would be one more file to load.
  string(REGEX REPLACE "//# sourceMappingURL=[^\n]*" "" text "${text}")
  string(REGEX REPLACE "/\\*# sourceMappingURL=[^\n]*" "" text "${text}")
  string(FIND "${text}" ")drydock\"" ends_early)
  if(NOT ends_early EQUAL -1)
    message(FATAL_ERROR "A file of the report's page holds the end of a raw string.")
  endif()
  file(APPEND "${OUTPUT}.new" "const std::string_view ${name} = R\"drydock(${text})drydock\";\n")
endfunction()

file(WRITE "${OUTPUT}.new" "#include \"page/assets.h\"\n\nnamespace drydock::page {\n\n")
add_text(kPageHtml "${ASSETS}/page.html")
add_text(kPageCss "${ASSETS}/page.css")
add_text(kPageScript "${ASSETS}/format.js" "${ASSETS}/holders.js" "${ASSETS}/curve.js" "${ASSETS}/flame.js"
  "${ASSETS}/segments.js" "${ASSETS}/tables.js" "${ASSETS}/page.js")
add_text(kChartScript "${CHART}/dygraph.min.js")
add_text(kChartCss "${CHART}/dygraph.min.css")
add_text(kChartLicence "${CHART_LICENCE}")
file(APPEND "${OUTPUT}.new" "\n}  // namespace drydock::page\n")
file(RENAME "${OUTPUT}.new" "${OUTPUT}")
