# The check that a coordinator published a release: its record against the signed list. Texts are hashed as
# they stand in the record, so that nothing has to be spelled anew.

#' Save a release as it was published and signed, or its certificate alone
#'
#' `thebes verify FILE` checks the file, and so does `thebes_verify`.
thebes_save <- function(release, file, certificate_only = FALSE) {
  part <- if (certificate_only) "certificate" else "release"
  text <- request_text(release$task$coordinator, path_of(release$task, "/record"), query = list(part = part))
  writeBin(charToRaw(enc2utf8(text)), file)
  invisible(file)
}

#' Check a release, or the record in a file, against the coordinator's signed list
#'
#' `key` is the fingerprint of the coordinator's key, as its operator says it: without it the check rests on
#' the key that comes from the coordinator just now, and says so. Stops with a `thebes_not_verified` that
#' names what does not fit. It shows who published this, and not that it was computed as it says.
thebes_verify <- function(release, key = NULL, coordinator = NULL) {
  if (inherits(release, "thebes_release")) {
    coordinator <- release$task$coordinator
    text <- request_text(coordinator, path_of(release$task, "/record"))
  } else {
    text <- paste(readLines(release, warn = FALSE, encoding = "UTF-8"), collapse = "\n")
  }
  record <- tryCatch(jsonlite::fromJSON(text, simplifyVector = FALSE), error = function(error) list())
  need(record$format %in% c("thebes release 1", "thebes certificate 1"), "the file is no record of a release")
  if (inherits(release, "thebes_release")) {
    shown <- jsonlite::fromJSON(record$answer, simplifyVector = FALSE)
    told <- release$told[names(release$told) != "certificate"]
    certificate <- jsonlite::fromJSON(record$certificate, simplifyVector = FALSE)
    same <- identical(in_order(shown), in_order(told)) &&
      identical(in_order(certificate), in_order(release$told$certificate))
    need(same, "the coordinator's record is of another release than this one")
  }
  need(!is.null(coordinator) || !is.null(key), "nobody knows whose key signed this: give key, or the coordinator")
  own <- checked_list(record$list)
  listed <- own$names
  need(record$task_id %in% listed, "the signed list does not name this task")
  digest <- hex(sha256(bytes_of(record$document)))
  need(own$digests[match(record$task_id, listed)] == digest, "the document does not fit")
  answer <- if (is.null(record[["answer"]])) raw_of(record$answer_digest) else sha256(bytes_of(record[["answer"]]))
  release_digest <- hex(sha256(c(label("thebes release 1"), sha256(bytes_of(record$certificate)), answer)))
  place <- match(paste0("release~", record$task_id, "~", record$phase), listed)
  need(!is.na(place), "not signed: the signed list has no such release of this task")
  need(own$digests[place] == release_digest, "the release does not fit: something in it is not what was signed")
  signer <- fingerprint(record$list$key)
  rests <- "the key whose fingerprint was given"
  if (!is.null(key)) {
    given <- tolower(gsub("[[:space:]]", "", key))
    need(identical(given, signer), "the list is signed with another key than the one whose fingerprint was given")
  }
  if (!is.null(coordinator)) {
    now <- checked_list(request(coordinator, "/api/log"))
    need(identical(fingerprint(now$key), signer), paste(
      "the coordinator signs with another key now; if it changed its key, let `thebes verify` follow it"
    ))
    where <- match(own$indices, now$indices)
    need(!anyNA(where), "the coordinator's list is shorter than the record's: it was cut off")
    need(all(now$hashes[where] == own$hashes), "the coordinator's list is another than the record's: two were signed")
    if (is.null(key)) rests <- "the key that the coordinator showed just now: compare its fingerprint by another way"
  }
  structure(
    list(task_id = record$task_id, digest = release_digest, fingerprint = signer, rests = rests),
    class = "thebes_verification"
  )
}

print.thebes_verification <- function(x, ...) {
  cat("Signed: the release of task ", x$task_id, ", digest ", x$digest, "\n", sep = "")
  cat("It rests on ", x$rests, ": ", x$fingerprint, "\n", sep = "")
  cat("It shows who published this; not that it was computed as it says.\n")
  invisible(x)
}

# A list, or the end of one, whose entries follow from each other and whose newest is signed.
checked_list <- function(told) {
  entries <- told$entries
  need(length(entries) > 0, "the signed list has no entries")
  indices <- vapply(entries, function(each) as.numeric(each$index), 0)
  hashes <- vapply(entries, function(each) each$hash, "")
  previous <- vapply(entries, function(each) each$previous, "")
  for (place in seq_along(entries)) {
    each <- entries[[place]]
    follows <- place == 1 || (indices[place] == indices[place - 1] + 1 && previous[place] == hashes[place - 1])
    body <- c(label("thebes task list entry 1"), eight(each$index), raw_of(each$previous), raw_of(each$digest))
    right <- identical(hex(sha256(c(body, bytes_of(each$task_id)))), each$hash)
    need(follows && right, paste("the task list is broken at entry", each$index))
  }
  names <- vapply(entries, function(each) each$task_id, "")
  need(!anyDuplicated(names), "the task list names something twice: two readers could be shown different ones")
  last <- length(entries)
  need(identical(told$head, hashes[last]), "the task list does not end with the head it names")
  statement <- c(label("thebes task list 1"), raw_of(told$head), eight(indices[last] + 1))
  signed <- tryCatch(
    openssl::ed25519_verify(statement, openssl::base64_decode(told$signature), public_key(told$key)),
    error = function(error) FALSE
  )
  need(isTRUE(signed), "the task list is not signed by the key it names")
  list(
    key = told$key, indices = indices, hashes = hashes,
    names = names,
    digests = vapply(entries, function(each) each$digest, "")
  )
}

# The same whatever the order of its names.
in_order <- function(value) {
  if (!is.list(value)) return(value)
  if (!is.null(names(value))) value <- value[order(names(value), method = "radix")]
  lapply(value, in_order)
}

need <- function(truth, message) if (!isTRUE(truth)) stop(condition(message, "thebes_not_verified"))

public_key <- function(text) openssl::read_ed25519_pubkey(openssl::base64_decode(text))

fingerprint <- function(key) hex(sha256(openssl::base64_decode(key)))

sha256 <- function(bytes) as.raw(openssl::sha256(bytes))

hex <- function(bytes) paste(format(bytes), collapse = "")

bytes_of <- function(text) charToRaw(enc2utf8(text))

label <- function(text) c(charToRaw(text), as.raw(0))

raw_of <- function(text) {
  need(is.character(text) && grepl("^[0-9a-f]{64}$", text), "the record has something else than a digest")
  as.raw(strtoi(substring(text, seq(1, 63, 2), seq(2, 64, 2)), 16L))
}

# A whole number in eight bytes, the largest first.
eight <- function(number) as.raw((as.numeric(number) %/% 256^(7:0)) %% 256)
