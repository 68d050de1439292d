# The answer: a value, an error bar, a certificate.

#' The answer as a data frame: a row for each number, with its error bar
#'
#' A value that is no number, such as a model, has no rows; `release$told$value` holds it.
as.data.frame.thebes_release <- function(x, ...) {
  value <- x$told$value
  bar <- x$told[["interval"]]  # not by $, which takes the beginning of a name for all of it
  if (is.list(value) && !all(vapply(value, is.numeric, NA))) {
    stop("this answer is no table of numbers; release$told$value holds it")
  }
  number <- function(each) if (is.null(each)) NA_real_ else as.numeric(each)
  end <- function(name, key, place) {
    told <- bar[[name]]
    if (!is.list(told)) return(number(told))
    number(if (is.null(names(told))) told[[place]] else told[[key]])
  }
  keys <- if (is.list(value)) names(value) else if (is.null(value)) character() else NA_character_
  rows <- seq_along(keys)
  table <- data.frame(
    key = keys,
    value = vapply(rows, function(row) if (is.list(value)) number(value[[row]]) else number(value), 0),
    low = vapply(rows, function(row) end("low", keys[row], row), 0),
    high = vapply(rows, function(row) end("high", keys[row], row), 0),
    level = rep(number(bar$level), length(rows))
  )
  if (is.list(value)) table else table[names(table) != "key"]
}

#' The certificate of a release: what was promised, to whom, and how it was made
thebes_certificate <- function(release) release$told$certificate

print.thebes_release <- function(x, ...) {
  if (is.null(x$told$value)) cat("no answer: ", plain(x$told$explanation), "\n", sep = "")
  else if (is.list(x$told$value) && !all(vapply(x$told$value, is.numeric, NA))) cat("a model, or rows\n")
  else print(as.data.frame(x), row.names = FALSE)
  if (!is.null(x$told$interval_note)) cat(plain(x$told$interval_note), "\n", sep = "")
  cat(strwrap(plain(thebes_certificate(x)$text)), sep = "\n")
  invisible(x)
}
