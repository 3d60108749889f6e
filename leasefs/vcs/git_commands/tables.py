"""The options of git's commands, from their manual pages and `git COMMAND -h` (2.39, and what has come since)."""

from __future__ import annotations

from leasefs.vcs.git_commands.options import Table

_SWITCHING = (
    "guess q,quiet recurse-submodules? progress m,merge conflict: d,detach t,track? f,force "
    "orphan: overwrite-ignore ignore-other-worktrees"
)
_PATHS = (
    "p,patch U,unified: inter-hunk-context: auto-advance pathspec-from-file: pathspec-file-nul "
    "ignore-skip-worktree-bits 2,ours 3,theirs"
)
_SEQUENCING = (
    "quit continue abort skip cleanup: n,no-commit e,edit s,signoff m,mainline: rerere-autoupdate strategy: "
    "X,strategy-option: S,gpg-sign? x ff allow-empty allow-empty-message keep-redundant-commits empty: reference"
)

CHECKOUT = Table(f"b: B: l overlay {_SWITCHING} {_PATHS}")
SWITCH = Table(f"c,create: C,force-create: discard-changes {_SWITCHING}")
RESTORE = Table(
    "s,source: S,staged W,worktree ignore-unmerged overlay q,quiet recurse-submodules? progress m,merge conflict: "
    + _PATHS
)
RESET = Table(
    "q,quiet refresh mixed soft hard merge keep recurse-submodules? p,patch U,unified: inter-hunk-context: "
    "auto-advance N,intent-to-add pathspec-from-file: pathspec-file-nul stdin z"
)
READ_TREE = Table(
    "index-output: empty v,verbose m trivial aggressive reset prefix: u exclude-per-directory: i n,dry-run "
    "sparse-checkout debug-unpack recurse-submodules? q,quiet"
)
CHECKOUT_INDEX = Table(
    "a,all ignore-skip-worktree-bits f,force q,quiet n,no-create u,index z stdin temp prefix: stage:"
)
CLEAN = Table("q,quiet n,dry-run f,force i,interactive d e,exclude: x X")
REMOVE = Table(
    "n,dry-run q,quiet cached f,force r ignore-unmatch sparse pathspec-from-file: pathspec-file-nul"
)
MOVE = Table("v,verbose n,dry-run f,force k sparse")
MERGE = Table(
    "n stat summary compact-summary log? squash commit e,edit cleanup: ff ff-only rerere-autoupdate "
    "verify-signatures s,strategy: X,strategy-option: m,message: F,file: into-name: v,verbose q,quiet abort quit "
    "continue allow-unrelated-histories progress S,gpg-sign? autostash overwrite-ignore signoff no-verify"
)
PICK = Table(_SEQUENCING)
REVERT = PICK
REBASE = Table(
    "onto: keep-base no-verify q,quiet v,verbose n,no-stat signoff trailer: committer-date-is-author-date "
    "reset-author-date ignore-date C: ignore-whitespace whitespace: f,force-rebase no-ff continue skip abort quit "
    "edit-todo show-current-patch apply m,merge i,interactive rerere-autoupdate empty: autosquash update-refs "
    "S,gpg-sign? autostash x,exec: r,rebase-merges? fork-point s,strategy: X,strategy-option: root "
    "reschedule-failed-exec reapply-cherry-picks allow-empty-message keep-empty k preserve-merges p stat"
)
PULL = Table(
    "v,verbose q,quiet progress recurse-submodules? r,rebase? n stat summary compact-summary log? signoff? squash commit edit "
    "cleanup: ff ff-only verify verify-signatures autostash s,strategy: X,strategy-option: S,gpg-sign? "
    "allow-unrelated-histories all a,append upload-pack: f,force t,tags p,prune j,jobs? dry-run k,keep depth: "
    "shallow-since: shallow-exclude: deepen: unshallow update-shallow refmap: o,server-option: 4,ipv4 6,ipv6 "
    "negotiation-tip: show-forced-updates set-upstream porcelain"
)
STASH_PUSH = Table(
    "k,keep-index S,staged p,patch U,unified: inter-hunk-context: auto-advance q,quiet u,include-untracked a,all "
    "m,message: pathspec-from-file: pathspec-file-nul"
)
STASH_APPLY = Table("q,quiet index label-ours: label-theirs: label-base:")
AM = Table(
    "i,interactive b 3,3way q,quiet s,signoff u,utf8 k,keep keep-non-patch m,message-id keep-cr c,scissors "
    "quoted-cr: whitespace: ignore-space-change ignore-whitespace directory: exclude: include: C: p: patch-format: "
    "reject resolvemsg: continue r,resolved skip abort quit show-current-patch? retry allow-empty "
    "committer-date-is-author-date ignore-date rerere-autoupdate S,gpg-sign? empty: n,no-verify"
)
APPLY = Table(
    "exclude: include: p: no-add stat allow-binary-replacement,binary numstat summary check index "
    "N,intent-to-add cached unsafe-paths apply 3,3way ours theirs union build-fake-ancestor: z C: whitespace: "
    "ignore-space-change ignore-whitespace R,reverse unidiff-zero reject allow-overlap v,verbose q,quiet "
    "inaccurate-eof recount directory: allow-empty"
)
ADD = Table(
    "n,dry-run v,verbose i,interactive p,patch U,unified: inter-hunk-context: auto-advance e,edit f,force u,update "
    "renormalize N,intent-to-add A,all ignore-removal refresh ignore-errors ignore-missing sparse chmod: "
    "warn-embedded-repo pathspec-from-file: pathspec-file-nul"
)
UPDATE_INDEX = Table(
    "q refresh really-refresh ignore-submodules add replace remove unmerged ignore-missing cacheinfo: chmod: "
    "assume-unchanged skip-worktree ignore-skip-worktree-entries info-only force-remove z stdin index-info unresolve "
    "g,again verbose clear-resolve-undo index-version: show-index-version split-index untracked-cache "
    "test-untracked-cache force-untracked-cache force-write-index fsmonitor fsmonitor-valid"
)
COMMIT = Table(
    "q,quiet v,verbose F,file: author: date: m,message: c,reedit-message: C,reuse-message: fixup: squash: "
    "reset-author trailer: s,signoff t,template: e,edit cleanup: status S,gpg-sign? a,all i,include interactive "
    "p,patch U,unified: inter-hunk-context: auto-advance o,only n,no-verify dry-run short branch ahead-behind "
    "porcelain long z,null amend no-post-rewrite u,untracked-files? pathspec-from-file: pathspec-file-nul "
    "allow-empty allow-empty-message"
)
WORKTREE_ADD = Table(
    "f,force b: B: orphan d,detach checkout lock reason: q,quiet track guess-remote relative-paths"
)
SPARSE_SET = Table("cone sparse-index stdin skip-checks")
CLONE = Table(
    "v,verbose q,quiet progress reject-shallow n,no-checkout bare mirror l,local no-hardlinks s,shared "
    "recurse-submodules? recursive? j,jobs: template: reference: reference-if-able: dissociate o,origin: "
    "b,branch: u,upload-pack: depth: shallow-since: shallow-exclude: single-branch no-tags shallow-submodules "
    "separate-git-dir: ref-format: c,config: server-option: 4,ipv4 6,ipv6 filter: also-filter-submodules "
    "remote-submodules sparse bundle-uri: tags revision:"
)
