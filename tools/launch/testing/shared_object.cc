// A shared object that holds something.
extern "C" int Something() { return 1; }
