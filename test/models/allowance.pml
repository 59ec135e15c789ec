/*
 * How nodes share a spending cap through one database: the protocol of docs/adr/0019-exact-across-nodes.md, for Spin.
 * allowance.test.ts runs it. As it stands nothing may go wrong; with a mistake of allowance-mistakes.h something must.
 *
 * A unit is the most that one call may cost. Nodes take units from the database (an allowance), spend them in memory,
 * note each in their own journal before the call is forwarded, and ship the journal to the database.
 *
 * What always holds: what providers were paid, by all nodes together, is at most CAP (asserted where it is spent).
 * What holds in the end, when every node has come back and has nothing left to do (rest): nobody is waited for, each
 * unit of a journal was settled exactly once, and the database counts nothing as held. No run is endless, so that all
 * of them come to this end.
 *
 * Each atomic block is one step of the real thing: a transaction, or an append to the journal. A node may be killed, be
 * cut off, or stand still between any two of them; one that is down or cut off is one that does not step.
 *
 * Left out, and why nothing is lost by it:
 * - Other scopes. A transaction takes all scopes of a call or none, so each scope alone sees what is here.
 * - Calls that are cheaper than their estimate. They spend less of what they hold, and the journal says how much.
 * - Time. A node counts as lost at any moment at all; no clock can do worse.
 * - The way from a node to the database and back. A request says in full what it is about, so one that takes long is
 *   one that is sent later, and an answer that takes long is a node that does not use what it has. Lost answers and
 *   requests that outlive their connection (a straggler, one for each node) are there.
 * - The state of the standby from transaction to transaction. It has a beginning of the history, of any length: the
 *   model guesses the moment after which nothing reaches it (freeze), and copies the state of then.
 * - More of everything. Two nodes, one failover, and the numbers below; nodes are alike, so it is node 1 that is
 *   charged. What takes more than that to go wrong would not be seen.
 */
#ifndef CAP
#define CAP 3
#endif
#ifndef ASKS
#define ASKS 2     /* takes, of both nodes together; so are the next four */
#endif
#ifndef BACKS
#define BACKS 1    /* give-backs */
#endif
#ifndef KILLS
#define KILLS 1
#endif
#ifndef BREAKS
#define BREAKS 1   /* connections that break with a request under way */
#endif
#ifndef CHARGES
#define CHARGES 1
#endif

/* What the database knows of a node: its row of "lease", and the position of its journal. */
typedef Lease {
  short amount;    /* units that it holds: free in its memory, or spent and not shipped yet */
  byte number;     /* of its last transaction that changed the row: the next one has to follow it */
  byte granted;    /* by that one */
  byte position;   /* how much of its journal is settled */
  short charge;    /* units settled as unknown since it was lost */
  bool member;     /* false: charged, or never joined; it holds nothing but what was charged */
  bool told;       /* it has reported in this epoch */
};
/* The first primary is 0, the standby 1. "epoch" is the row that says for which of them all "told" are meant. */
typedef Database { short settled; byte epoch; Lease row[2] };
Database db[2];
#define ROW db[d].row[n]
#define FREE (CAP - db[d].settled - db[d].row[0].amount - db[d].row[1].amount)

bool frozen, promoted;   /* nothing reaches the standby any more; it serves */
bool alive = true;       /* the first primary serves */

/* A node. Its journal and "seen" are on its disk; a kill takes the rest. */
#define NOBODY 2
typedef Node {
  byte journal;      /* units noted there */
  byte seen;         /* the highest timeline it was connected to */
  short memory;      /* units free to be spent */
  byte owed;         /* paid and not noted: nothing but with LATE_JOURNAL */
  byte remembered;   /* the position, with OWN_POSITION */
  byte at = NOBODY;  /* the database it is connected to */
  bool fresh;        /* it has to report before it may do anything else */
  byte number;       /* of its last transaction that was answered */
  byte ask;          /* the operation whose answer it waits for, */
  byte units;        /* and of how many units */
  bool blank;        /* it has forgotten the timeline, with FENCE_MEMORY */
};
Node node[2];
#define ME node[n]
#define ON (ME.at != NOBODY)
#define MINE db[ME.at].row[n]
#define READY (ON && MINE.member && MINE.told && !ME.fresh)

/* A request that has outlived its connection: it is carried out at any later time, while it can. */
typedef Straggler { byte what; byte at; byte number; byte units; byte first; byte upto };
Straggler late[2];
#define LATE late[n]
#define TAKE 1
#define BACK 2
#define SHIP 3
#define REPORT 4
#define JOIN 5

short paid;
byte asks = ASKS, kills = KILLS, breaks = BREAKS, backs = BACKS, charges = CHARGES;
/* Of the transaction that is being carried out; they mean nothing between two steps. */
#ifndef SHORTEST
hidden
#endif
byte d, granted, did;

#include "allowance-mistakes.h"

/* ---- Transactions: of node n, on database d. "did": it was carried out, now or before. ---- */

/* Granted if it fits. A refusal uses up the number too: its straggler could be granted when nobody asks any more. */
inline take(seq, want) {
  did = false; granted = 0;
  if
  :: ROW.member && IS_REPEATED_TAKE(seq) -> did = true; granted = ROW.granted
  :: ROW.member && IS_NEXT_TAKE(seq) ->
    did = true;
    if
    :: OPEN && FREE >= want ->
      granted = want; ROW.amount = ROW.amount + want; ROW.granted = want; ROW.number = seq;
      CLAIM_OF_GRANT
    :: else -> REFUSE(seq)
    fi
  :: else
  fi
}

inline give_back(seq, rest) {
  did = false; granted = 0;
  if
  :: ROW.member && IS_REPEATED_BACK(seq) -> did = true
  :: ROW.member && IS_NEXT_BACK(seq) ->
    did = true; ROW.amount = ROW.amount - rest; ROW.number = seq; ROW.granted = 0
  :: else
  fi
}

/* Of a node that is charged, the settled sum has these units already: they leave the charge. */
inline ship(from, to) {
  did = false;
  if
  :: FOLLOWS(from) ->
    did = true;
    if
    :: ROW.member -> db[d].settled = db[d].settled + to - from; ROW.amount = ROW.amount - (to - from)
    :: else -> ROW.charge = ROW.charge - (to - from)
    fi;
    ROW.position = to
  :: else
  fi
}

/* Ships, says what the node holds from there on, and makes its stragglers void: it uses up their number. */
inline report(seq, from, to, holds) {
  did = false;
  if
  :: ROW.member && ROW.number + 1 == seq && FOLLOWS(from) ->
    did = true; db[d].settled = db[d].settled + to - from; ROW.amount = holds; ROW.told = true;
    ROW.granted = 0; ROW.position = to; ROW.number = seq
  :: else
  fi
}

/* A report by a node that holds nothing, which makes it a member: what is left of its charge is taken back. */
inline join(seq, from, to) {
  did = false;
  if
  :: !ROW.member && ROW.number + 1 == seq && FOLLOWS(from) && IS_KEPT(d) ->
    did = true; db[d].settled = db[d].settled + to - from - ROW.charge; ROW.charge = 0; ROW.amount = 0;
    ROW.told = true; ROW.member = true; ROW.granted = 0; ROW.position = to; ROW.number = seq
  :: else
  fi
}

/* ---- What becomes of a request: it is answered, or the connection breaks before it, after it, or beside it. ---- */

inline broken() { breaks--; ME.at = NOBODY }

inline left_behind(kind, seq, many, from, to) {
  LATE.what = kind; LATE.at = d; LATE.number = seq; LATE.units = many; LATE.first = from; LATE.upto = to; broken()
}

inline forget_straggler() {
  LATE.what = 0; LATE.at = 0; LATE.number = 0; LATE.units = 0; LATE.first = 0; LATE.upto = 0
}

#define CAN_BREAK (breaks > 0)
#define CAN_STRAGGLE (breaks > 0 && LATE.what == 0)

/* A straggler that can do nothing any more is not kept: states that differ by it alone are one. */
inline drop_void() {
  if
  :: !IS_EVER_VOID || LATE.what == 0 || LATE.at != d
  :: IS_EVER_VOID && LATE.at == d && LATE.what == SHIP && LATE.first == ROW.position
  :: IS_EVER_VOID && LATE.at == d && LATE.what != SHIP && LATE.what != 0 && LATE.number == ROW.number + 1
  :: else -> forget_straggler()
  fi
}

/* Only the difference between the numbers of a node and its row matters: states that differ by the count are one. */
inline renumber() {
  if
  :: !IS_COUNT_NEEDED && LATE.what == 0 && ME.number == ROW.number -> ME.number = 0; ROW.number = 0; ROW.granted = 0
  :: else
  fi
}

/* A take or give-back is repeated word for word, under its number, until it is answered. */
inline request() {
  if
  :: ME.ask == TAKE -> take(ME.number + 1, ME.units)
  :: ME.ask == BACK -> give_back(ME.number + 1, ME.units)
  fi
}

inline send() {
  if
  :: request();
    if
    :: did -> ME.memory = ME.memory + granted; ME.number = ROW.number; ME.ask = 0; ME.units = 0; drop_void(); renumber()
    :: else -> ME.fresh = true
    fi
  :: CAN_BREAK -> broken()
  :: CAN_BREAK -> request(); drop_void(); broken()
  :: CAN_STRAGGLE -> left_behind(ME.ask, ME.number + 1, ME.units, 0, 0)
  fi
}

inline reported() {
  ME.fresh = false; ME.number = ROW.number; REMEMBER(ROW.position); drop_void(); renumber()
}

/* It has to report until an answer says that it has. What it waited for is void then. "to" may be behind by now. */
inline send_report() {
  ME.fresh = true; ME.ask = 0; ME.units = 0; to = ME.journal;
  do :: to > FROM -> to-- :: break od;
  if
  :: report(ROW.number + 1, FROM, to, HOLDS(to)); if :: did -> reported() :: else fi
  :: CAN_BREAK -> broken()
  :: CAN_BREAK -> report(ROW.number + 1, FROM, to, HOLDS(to)); drop_void(); broken()
  :: CAN_STRAGGLE -> left_behind(REPORT, ROW.number + 1, HOLDS(to), FROM, to)
  fi;
  to = 0
}

inline send_join() {
  if
  :: join(ROW.number + 1, FROM, ME.journal); if :: did -> reported() :: else fi
  :: CAN_BREAK -> broken()
  :: CAN_BREAK -> join(ROW.number + 1, FROM, ME.journal); drop_void(); broken()
  :: CAN_STRAGGLE -> left_behind(JOIN, ROW.number + 1, 0, FROM, ME.journal)
  fi
}

inline send_ship() {
  to = ME.journal;
  do :: to > FROM + 1 -> to-- :: break od;
  if
  :: ship(FROM, to); if :: did -> REMEMBER(to); drop_void() :: else fi
  :: CAN_BREAK -> broken()
  :: CAN_BREAK -> ship(FROM, to); drop_void(); broken()
  :: CAN_STRAGGLE -> left_behind(SHIP, 0, 0, FROM, to)
  fi;
  to = 0
}

inline carry_out_straggler() {
  d = LATE.at;
  if
  :: LATE.what == TAKE -> take(LATE.number, LATE.units)
  :: LATE.what == BACK -> give_back(LATE.number, LATE.units)
  :: LATE.what == SHIP -> ship(LATE.first, LATE.upto)
  :: LATE.what == REPORT -> report(LATE.number, LATE.first, LATE.upto, LATE.units)
  :: LATE.what == JOIN -> join(LATE.number, LATE.first, LATE.upto)
  fi;
  forget_straggler()
}

/* The node reads its row. A database that is another begins an epoch: nobody has reported there. */
inline connect() {
  ME.at = d;
  if
  :: IS_OTHER -> db[d].epoch = d; db[d].row[0].told = false; db[d].row[1].told = false
  :: else
  fi;
  SEE(d);
  if :: ME.number > ROW.number -> ME.number = ROW.number :: else fi
}

proctype gateway(byte n) {
  byte to;
end:
  do
  /* Spend: no question to anybody, whoever can or cannot be reached. */
  :: atomic { ME.memory > 0 -> ME.memory--; NOTE; paid++; printf("node %d spends, %d paid\n", n, paid);
      assert(paid <= CAP) }
  :: atomic { ME.owed > 0 -> ME.owed--; ME.journal++; printf("node %d notes what it has spent\n", n) }
  :: atomic { READY && ME.ask == 0 && asks > 0 -> d = ME.at; asks--; ME.ask = TAKE;
      if :: ME.units = 1 :: ME.units = 2 fi;
      send(); printf("node %d takes at %d, granted %d, connected %d\n", n, d, granted, ME.at) }
  :: atomic { READY && ME.ask == 0 && ME.memory > 0 && backs > 0 -> d = ME.at; backs--; ME.ask = BACK; ME.units = 1;
      ME.memory--; send(); printf("node %d gives back at %d, connected %d\n", n, d, ME.at) }
  :: atomic { READY && ME.ask != 0 -> d = ME.at;
      send(); printf("node %d asks again at %d, granted %d, connected %d\n", n, d, granted, ME.at) }
  :: atomic { ON && (READY || !MINE.member) && ME.journal > MINE.position && CAN_SHIP -> d = ME.at;
      send_ship(); printf("node %d ships at %d, connected %d\n", n, d, ME.at) }
  :: atomic { ON && MINE.member && !(MINE.told && !ME.fresh) && CAN_SHIP -> d = ME.at;
      send_report(); printf("node %d reports at %d, amount %d, connected %d\n", n, d, ROW.amount, ME.at) }
  /* It was charged: before it joins it forgets what it held, for that is settled. */
  :: atomic { ON && !MINE.member && (ME.memory > 0 || ME.ask != 0 || !ME.fresh) ->
      ME.memory = 0; ME.ask = 0; ME.units = 0; ME.fresh = true; printf("node %d sees that it is no member\n", n) }
  :: atomic { ON && !MINE.member && ME.memory == 0 && ME.ask == 0 && ME.fresh && CAN_SHIP && IS_KEPT(ME.at) ->
      d = ME.at; send_join(); printf("node %d joins at %d, connected %d\n", n, d, ME.at) }
  :: atomic { !ON && alive && ME.seen == 0 -> d = 0; connect(); printf("node %d connects to 0\n", n) }
  :: atomic { !ON && promoted -> d = 1; connect(); printf("node %d connects to 1, epoch %d\n", n, db[1].epoch) }
  :: atomic { LATE.what != 0 -> printf("a straggler of node %d: %d at %d\n", n, LATE.what, LATE.at);
      carry_out_straggler() }
  :: atomic { kills > 0 && (ME.memory > 0 || ME.owed > 0 || !ME.fresh) -> kills--; printf("node %d is killed\n", n);
      ME.memory = 0; ME.owed = 0; ME.ask = 0; ME.units = 0; ME.number = 0; ME.at = NOBODY; ME.fresh = true;
      FORGET_LINE }
  od
}

/* ---- What happens to the database, and the job that charges lost nodes. ---- */

inline move_row(i) {
  db[1].row[i].amount = db[0].row[i].amount; db[1].row[i].number = db[0].row[i].number;
  db[1].row[i].granted = db[0].row[i].granted; db[1].row[i].position = db[0].row[i].position;
  db[1].row[i].charge = db[0].row[i].charge; db[1].row[i].member = db[0].row[i].member;
  db[1].row[i].told = db[0].row[i].told
}

inline copy() {
  printf("from here on the standby gets nothing\n");
  db[1].settled = db[0].settled; move_row(0); move_row(1)
}

inline clear_row(i) {
  db[0].row[i].amount = 0; db[0].row[i].number = 0; db[0].row[i].granted = 0; db[0].row[i].position = 0;
  db[0].row[i].charge = 0; db[0].row[i].member = false; db[0].row[i].told = false
}

inline clear_node(i) {
  if :: node[i].at == 0 -> node[i].at = NOBODY :: else fi;
  if
  :: late[i].what != 0 && late[i].at == 0 ->
    late[i].what = 0; late[i].number = 0; late[i].units = 0; late[i].first = 0; late[i].upto = 0
  :: else
  fi
}

/* With it goes what it knew, every connection to it and every request under way. */
inline lose_primary() {
  printf("the primary is lost\n");
  alive = false; db[0].settled = 0; clear_row(0); clear_row(1); clear_node(0); clear_node(1)
}

inline charge_lost() {
  charges--; db[d].settled = db[d].settled + CHARGED; ROW.charge = CHARGED; ROW.amount = 0;
  ROW.granted = 0; ROW.member = false; ROW.told = false; ROW.number++; drop_void();
  printf("node %d is charged %d at %d\n", n, ROW.charge, d)
}

proctype world() {
  byte n = 1;
end:
  do
  :: atomic { IS_SYNC && !promoted -> copy(); promoted = true; lose_primary() }
  :: atomic { !IS_SYNC && !frozen -> frozen = true; copy() }
  :: atomic { frozen && !promoted -> promoted = true; printf("the standby serves\n");
      if :: IS_SPLIT :: else -> lose_primary() fi }
  :: atomic { promoted && alive -> lose_primary() }
  :: atomic { alive && charges > 0 && MAY_CHARGE(0) -> d = 0; charge_lost() }
  :: atomic { promoted && charges > 0 && MAY_CHARGE(1) -> d = 1; charge_lost() }
  od
}

#define IS_AT_REST(i) (db[1].row[i].member && db[1].row[i].told && db[1].row[i].amount == 0 && \
  db[1].row[i].charge == 0 && node[i].ask == 0)

/* Nothing can step any more. */
proctype rest() {
end:
#ifndef PAID_ONLY
  timeout;
  assert(IS_AT_REST(0) && IS_AT_REST(1));
  assert(db[1].row[0].position == node[0].journal && db[1].row[1].position == node[1].journal);
  assert(db[1].settled == node[0].journal + node[1].journal)
#endif
}

/* Node 0 is a member from the beginning, node 1 has yet to join. */
init {
  atomic {
    db[0].row[0].member = true; db[0].row[0].told = true;
    run gateway(0); run gateway(1); run world(); run rest()
  }
}
